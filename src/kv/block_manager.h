#pragma once
// The pool and its prefix index as one: a block that is reused leaves the index.
//
// Owner: the engine's state. One thread; const functions only read. Errors: none.

#include <span>

#include "kv/block_pool.h"
#include "kv/prefix_index.h"

namespace tandem::kv {

class BlockManager {
 public:
  explicit BlockManager(const PrefixIndexConfig& config);

  const BlockPool& pool() const { return pool_; }
  const PrefixIndex& index() const { return index_; }
  int32_t block_tokens() const { return block_tokens_; }

  // Blocks that hold `tokens` tokens.
  int32_t blocks_for(int32_t tokens) const { return (tokens + block_tokens_ - 1) / block_tokens_; }

  // Appends blocks that others hold or held to `table`.
  void share(BlockTable& table, std::span<const BlockId> blocks);
  // Appends `count` fresh blocks; the caller has planned that they are free.
  void allocate(BlockTable& table, int32_t count);
  // In reverse, so that tails are reused before the heads that others may share. Empties `table`.
  void release(BlockTable& table);

  // The rows of a full block are written. One that is in the index already stays as it is.
  void store(BlockId block,
             const PrefixHash& hash,
             const PrefixHash& parent,
             std::span<const int32_t> tokens);
  // The rows of these blocks are not to be trusted: nobody else may find them.
  void forget(std::span<const BlockId> blocks);

  void drain_events(std::vector<BlockEvent>& out) { index_.drain_events(out); }

 private:
  const int32_t block_tokens_;
  BlockPool pool_;
  PrefixIndex index_;
};

}  // namespace tandem::kv
