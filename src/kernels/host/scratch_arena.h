#pragma once
// Scratch memory of one stream: grows to what the largest operator needs, is kept, and is handed
// out from the start again for the next operator. One thread.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <type_traits>
#include <vector>

namespace tandem::kernels {

class ScratchArena {
 public:
  static constexpr size_t kAlignment = 64;

  // `count` elements, 64-byte aligned, contents undefined, valid until reset(). std::bad_alloc when
  // the system has no more; the stream that runs the operator turns it into kOutOfMemory.
  template <class T>
  T* allocate(size_t count) {
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= kAlignment);
    if (count > std::numeric_limits<size_t>::max() / 2 / sizeof(T)) throw std::bad_alloc();
    return static_cast<T*>(allocate_bytes(count * sizeof(T)));
  }

  // Takes everything back. Pieces that were added while the last operator ran become one.
  void reset() {
    used_ = 0;
    if (blocks_.size() < 2) return;
    size_t total = 0;
    for (const Block& block : blocks_) total += block.bytes;
    blocks_.clear();
    add_block(total);
  }

 private:
  struct Free {
    void operator()(void* data) const { ::operator delete(data, std::align_val_t{kAlignment}); }
  };
  struct Block {
    std::unique_ptr<void, Free> data;
    size_t bytes = 0;
  };
  static constexpr size_t kFirstBlockBytes = size_t{64} << 10;

  void add_block(size_t bytes) {
    blocks_.reserve(blocks_.size() + 1);
    blocks_.push_back(
        {std::unique_ptr<void, Free>(::operator new(bytes, std::align_val_t{kAlignment})), bytes});
    used_ = 0;
  }

  void* allocate_bytes(size_t bytes) {
    bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (blocks_.empty() || blocks_.back().bytes - used_ < bytes) {
      const size_t grown = blocks_.empty() ? kFirstBlockBytes : 2 * blocks_.back().bytes;
      add_block(bytes > grown ? bytes : grown);
    }
    char* data = static_cast<char*>(blocks_.back().data.get()) + used_;
    used_ += bytes;
    return data;
  }

  std::vector<Block> blocks_;
  size_t used_ = 0;  // bytes of the last block
};

}  // namespace tandem::kernels
