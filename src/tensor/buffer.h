#pragma once
// Owns a piece of a device's memory.

#include <cstddef>
#include <utility>

#include "base/error.h"
#include "tensor/memory_api.h"

namespace tandem::tensor {

// A Status as an Expected (the other way: to_status). Any thread.
Expected<void> to_expected(const Status& status);
Status to_status(const Error& error);

// Moves only; frees on destruction. The Device and the table must outlive it. Any thread.
class Buffer {
 public:
  Buffer() = default;
  // kOutOfMemory or kInvalidArgument (bytes == 0).
  static Expected<Buffer> allocate(Device* device,
                                   const MemoryApi& api,
                                   const AllocationRequest& request);

  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { release(); }

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void release();

  Device* device_ = nullptr;
  const MemoryApi* api_ = nullptr;
  void* data_ = nullptr;
  size_t bytes_ = 0;
  MemoryKind kind_ = MemoryKind::kDevice;
};

}  // namespace tandem::tensor
