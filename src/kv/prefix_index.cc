#include "kv/prefix_index.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace tandem::kv {

PrefixIndex::PrefixIndex(const PrefixIndexConfig& config)
    : config_(config),
      buckets_(std::bit_ceil(static_cast<size_t>(std::max(config.blocks, 1))), kNoBlock),
      entries_(static_cast<size_t>(config.blocks)),
      tokens_(static_cast<size_t>(config.blocks) * static_cast<size_t>(config.block_tokens)),
      events_(static_cast<size_t>(config.event_capacity)) {}

void PrefixIndex::insert(BlockId block,
                         const PrefixHash& hash,
                         const PrefixHash& parent,
                         std::span<const int32_t> tokens) {
  TANDEM_CHECK(tokens.size() == static_cast<size_t>(config_.block_tokens));
  Entry& entry = entries_[static_cast<size_t>(block)];
  TANDEM_CHECK(!entry.used, "block is in the index already");
  const bool is_new = !named(hash);
  entry = {hash, parent, buckets_[bucket(hash)], true};
  buckets_[bucket(hash)] = block;
  std::copy(tokens.begin(), tokens.end(), tokens_.begin() + block * int64_t{config_.block_tokens});
  ++size_;
  if (is_new) record(BlockEvent::Kind::kStored, entry);
}

void PrefixIndex::erase(BlockId block) {
  Entry& entry = entries_[static_cast<size_t>(block)];
  if (!entry.used) return;
  BlockId* link = &buckets_[bucket(entry.hash)];
  while (*link != block) link = &entries_[static_cast<size_t>(*link)].next;
  *link = entry.next;
  entry.used = false;
  --size_;
  if (!named(entry.hash)) record(BlockEvent::Kind::kRemoved, entry);
}

bool PrefixIndex::named(const PrefixHash& hash) const {
  for (BlockId b = buckets_[bucket(hash)]; b != kNoBlock; b = entries_[static_cast<size_t>(b)].next)
    if (entries_[static_cast<size_t>(b)].hash == hash) return true;
  return false;
}

BlockId PrefixIndex::find(const PrefixHash& hash,
                          const PrefixHash& parent,
                          std::span<const int32_t> tokens) const {
  for (BlockId b = buckets_[bucket(hash)]; b != kNoBlock;) {
    const Entry& entry = entries_[static_cast<size_t>(b)];
    const auto stored = tokens_.begin() + b * int64_t{config_.block_tokens};
    if (entry.hash == hash && entry.parent == parent &&
        std::equal(tokens.begin(), tokens.end(), stored, stored + config_.block_tokens))
      return b;
    b = entry.next;
  }
  return kNoBlock;
}

int32_t PrefixIndex::match(const PrefixHash& root,
                           std::span<const PrefixHash> hashes,
                           std::span<const int32_t> tokens,
                           std::vector<BlockId>& hits) const {
  const auto block_tokens = static_cast<size_t>(config_.block_tokens);
  const size_t full = std::min(hashes.size(), tokens.size() / block_tokens);
  PrefixHash parent = root;
  size_t count = 0;
  for (; count < full; ++count) {
    const auto part = tokens.subspan(count * block_tokens, block_tokens);
    const BlockId block = find(hashes[count], parent, part);
    if (block == kNoBlock) break;
    hits.push_back(block);
    parent = hashes[count];
  }
  return static_cast<int32_t>(count);
}

void PrefixIndex::record(BlockEvent::Kind kind, const Entry& entry) {
  const uint64_t number = next_event_++;
  if (events_.empty()) return;
  if (event_count_ == events_.size()) {
    first_event_ = (first_event_ + 1) % events_.size();
    --event_count_;
  }
  BlockEvent& event = events_[(first_event_ + event_count_++) % events_.size()];
  event = {kind, entry.hash, {}, config_.epoch, number};
  if (kind == BlockEvent::Kind::kStored) event.parent = entry.parent;
}

void PrefixIndex::drain_events(std::vector<BlockEvent>& out) {
  for (size_t i = 0; i < event_count_; ++i)
    out.push_back(events_[(first_event_ + i) % events_.size()]);
  first_event_ = 0;
  event_count_ = 0;
}

}  // namespace tandem::kv
