#pragma once
// Which blocks hold the rows of which token chain. A block is in the index from the time its rows
// are known to be written until it is reused or forgotten; it may be free meanwhile.
//
// Owner: BlockManager. One thread; const functions only read. Errors: none.

#include <cstdint>
#include <span>
#include <vector>

#include "kv/block_pool.h"
#include "kv/prefix_hash.h"

namespace tandem::kv {

// What a router needs to know which engine holds which prefix. A gap in `sequence` means that
// events were lost: start again from a snapshot; another `epoch` means that the engine started
// anew.
struct BlockEvent {
  enum class Kind : int32_t { kStored, kRemoved };
  Kind kind = Kind::kStored;
  PrefixHash hash;
  PrefixHash parent;  // kStored
  uint64_t epoch = 0;
  uint64_t sequence = 0;
};

struct PrefixIndexConfig {
  int32_t blocks = 0;
  int32_t block_tokens = 0;
  int32_t event_capacity = 0;  // 0 = events are not kept; the oldest fall out
  uint64_t epoch = 0;
};

// All memory is taken by the constructor.
class PrefixIndex {
 public:
  explicit PrefixIndex(const PrefixIndexConfig& config);

  // `block` holds these tokens after `parent`. Several blocks may hold the same.
  void insert(BlockId block,
              const PrefixHash& hash,
              const PrefixHash& parent,
              std::span<const int32_t> tokens);
  // Nothing happens when it is not in.
  void erase(BlockId block);
  bool contains(BlockId block) const { return entries_[static_cast<size_t>(block)].used; }

  // A block of this name whose parent and tokens are equal too; kNoBlock if none.
  BlockId find(const PrefixHash& hash,
               const PrefixHash& parent,
               std::span<const int32_t> tokens) const;

  // Appends to `hits` the blocks of the longest known prefix of `tokens`, whose full blocks are
  // called `hashes`; returns how many.
  int32_t match(const PrefixHash& root,
                std::span<const PrefixHash> hashes,
                std::span<const int32_t> tokens,
                std::vector<BlockId>& hits) const;

  int32_t size() const { return size_; }

  // Moves the kept events, oldest first, to the end of `out`.
  void drain_events(std::vector<BlockEvent>& out);

 private:
  struct Entry {
    PrefixHash hash;
    PrefixHash parent;
    BlockId next = kNoBlock;  // in the bucket
    bool used = false;
  };

  size_t bucket(const PrefixHash& hash) const { return hash.low & (buckets_.size() - 1); }
  bool named(const PrefixHash& hash) const;
  void record(BlockEvent::Kind kind, const Entry& entry);

  const PrefixIndexConfig config_;
  std::vector<BlockId> buckets_;
  std::vector<Entry> entries_;   // by block
  std::vector<int32_t> tokens_;  // [blocks, block_tokens]
  int32_t size_ = 0;
  std::vector<BlockEvent> events_;  // ring
  size_t first_event_ = 0;
  size_t event_count_ = 0;
  uint64_t next_event_ = 0;
};

}  // namespace tandem::kv
