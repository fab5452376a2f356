#pragma once
// Fixed-size KV blocks by number: reference counts and the order of reuse. No tensors, no requests.
//
// Owner: BlockManager. One thread. Errors: none; asking for more than free_blocks() is a programmer
// error of the caller, who plans on PoolPreview first.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tandem::kv {

using BlockId = int32_t;
constexpr BlockId kNoBlock = -1;

// Ids of a sequence's blocks in order: block i holds its tokens [i * block_tokens, …).
using BlockTable = std::vector<BlockId>;

// Free blocks form a doubly linked list inside the records, oldest first, so that a block that is
// wanted again leaves the middle of the list in constant time.
class BlockPool {
 public:
  explicit BlockPool(int32_t blocks);

  int32_t size() const { return static_cast<int32_t>(records_.size()) - 1; }
  int32_t free_blocks() const { return free_; }
  int32_t references(BlockId block) const { return records_[index(block)].references; }

  // The head of the free list, with one reference; kNoBlock when none is free.
  BlockId take();

  // One more reference; a free block leaves the free list.
  void retain(BlockId block);

  // One less. At zero the block joins the free list: at its tail, to be reused last, or with
  // `reuse_first` at its head (nothing worth keeping in it). True when it became free.
  bool release(BlockId block, bool reuse_first);

  // True when list, counts and links agree. For tests: linear.
  bool consistent() const;

 private:
  struct Record {
    int32_t references = 0;
    int32_t previous = 0;
    int32_t next = 0;
  };

  size_t index(BlockId block) const;
  void link_before(int32_t block, int32_t next);
  void unlink(int32_t block);

  std::vector<Record> records_;  // the last one is the list's sentinel
  int32_t free_ = 0;
};

// A pool as it would be after some retains, releases and takes: what a pure planner counts on.
// Keeps its memory over reset().
class PoolPreview {
 public:
  void reset(const BlockPool& pool);

  int32_t free_blocks() const { return free_; }
  int32_t references(BlockId block) const;
  void take(int32_t blocks);
  void retain(BlockId block);
  void release(BlockId block);

 private:
  int32_t& delta(BlockId block);

  const BlockPool* pool_ = nullptr;
  int32_t free_ = 0;
  // A delta counts only where its stamp is the current one, so reset() touches no block.
  uint32_t stamp_ = 0;
  std::vector<uint32_t> stamps_;
  std::vector<int32_t> deltas_;
};

}  // namespace tandem::kv
