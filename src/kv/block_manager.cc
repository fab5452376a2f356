#include "kv/block_manager.h"

#include "base/check.h"

namespace tandem::kv {

BlockManager::BlockManager(const PrefixIndexConfig& config)
    : block_tokens_(config.block_tokens), pool_(config.blocks), index_(config) {}

void BlockManager::share(BlockTable& table, std::span<const BlockId> blocks) {
  for (const BlockId block : blocks) {
    pool_.retain(block);
    table.push_back(block);
  }
}

void BlockManager::allocate(BlockTable& table, int32_t count) {
  for (int32_t i = 0; i < count; ++i) {
    const BlockId block = pool_.take();
    TANDEM_CHECK(block != kNoBlock, "allocation was not planned");
    index_.erase(block);
    table.push_back(block);
  }
}

void BlockManager::release(BlockTable& table) {
  for (auto block = table.rbegin(); block != table.rend(); ++block)
    pool_.release(*block, /*reuse_first=*/!index_.contains(*block));
  table.clear();
}

void BlockManager::store(BlockId block,
                         const PrefixHash& hash,
                         const PrefixHash& parent,
                         std::span<const int32_t> tokens) {
  TANDEM_CHECK(pool_.references(block) > 0, "only held blocks are stored");
  if (!index_.contains(block)) index_.insert(block, hash, parent, tokens);
}

void BlockManager::forget(std::span<const BlockId> blocks) {
  for (const BlockId block : blocks) index_.erase(block);
}

}  // namespace tandem::kv
