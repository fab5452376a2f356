#include "kv/block_pool.h"

#include <algorithm>

#include "base/check.h"

namespace tandem::kv {

BlockPool::BlockPool(int32_t blocks) : records_(static_cast<size_t>(blocks) + 1), free_(blocks) {
  TANDEM_CHECK(blocks >= 0);
  for (int32_t i = 0; i <= blocks; ++i) {
    records_[i].previous = i == 0 ? blocks : i - 1;
    records_[i].next = i == blocks ? 0 : i + 1;
  }
}

size_t BlockPool::index(BlockId block) const {
  TANDEM_CHECK(block >= 0 && block < size(), "block id outside the pool");
  return static_cast<size_t>(block);
}

void BlockPool::link_before(int32_t block, int32_t next) {
  const int32_t previous = records_[next].previous;
  records_[block].previous = previous;
  records_[block].next = next;
  records_[previous].next = block;
  records_[next].previous = block;
}

void BlockPool::unlink(int32_t block) {
  records_[records_[block].previous].next = records_[block].next;
  records_[records_[block].next].previous = records_[block].previous;
}

BlockId BlockPool::take() {
  if (free_ == 0) return kNoBlock;
  const BlockId block = records_[size()].next;
  unlink(block);
  --free_;
  records_[block].references = 1;
  return block;
}

void BlockPool::retain(BlockId block) {
  Record& record = records_[index(block)];
  if (record.references == 0) {
    unlink(block);
    --free_;
  }
  ++record.references;
}

bool BlockPool::release(BlockId block, bool reuse_first) {
  Record& record = records_[index(block)];
  TANDEM_CHECK(record.references > 0, "block released more often than retained");
  if (--record.references > 0) return false;
  link_before(block, reuse_first ? records_[size()].next : size());
  ++free_;
  return true;
}

bool BlockPool::consistent() const {
  const int32_t sentinel = size();
  int32_t count = 0;
  for (int32_t i = records_[sentinel].next; i != sentinel; i = records_[i].next) {
    if (++count > free_ || records_[i].references != 0) return false;
    if (records_[records_[i].next].previous != i) return false;
  }
  const auto unreferenced = std::count_if(
      records_.begin(), records_.end() - 1, [](const Record& r) { return r.references == 0; });
  return count == free_ && unreferenced == free_;
}

void PoolPreview::reset(const BlockPool& pool) {
  pool_ = &pool;
  free_ = pool.free_blocks();
  const auto size = static_cast<size_t>(pool.size());
  if (stamps_.size() != size || ++stamp_ == 0) {
    stamps_.assign(size, 0);
    deltas_.assign(size, 0);
    stamp_ = 1;
  }
}

int32_t& PoolPreview::delta(BlockId block) {
  const auto i = static_cast<size_t>(block);
  if (stamps_[i] != stamp_) {
    stamps_[i] = stamp_;
    deltas_[i] = 0;
  }
  return deltas_[i];
}

int32_t PoolPreview::references(BlockId block) const {
  const auto i = static_cast<size_t>(block);
  return pool_->references(block) + (stamps_[i] == stamp_ ? deltas_[i] : 0);
}

void PoolPreview::take(int32_t blocks) {
  TANDEM_CHECK(blocks <= free_, "planned more blocks than are free");
  free_ -= blocks;
}

void PoolPreview::retain(BlockId block) {
  if (references(block) == 0) --free_;
  TANDEM_CHECK(free_ >= 0, "planned more blocks than are free");
  ++delta(block);
}

void PoolPreview::release(BlockId block) {
  --delta(block);
  if (references(block) == 0) ++free_;
}

}  // namespace tandem::kv
