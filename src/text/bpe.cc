#include "text/bpe.h"

#include <algorithm>
#include <bit>
#include <functional>

namespace tandem::text {
namespace {

// Up to here a scan for the lowest rank is faster than a heap.
constexpr size_t kShortSymbols = 64;
constexpr uint32_t kNone = UINT32_MAX;

uint64_t pair_of(int32_t left, int32_t right) {
  return (uint64_t{static_cast<uint32_t>(left)} << 32) | static_cast<uint32_t>(right);
}

size_t slot_of(uint64_t pair, size_t mask) {
  // The multiplier of Fibonacci hashing (Knuth, TAOCP 3, 6.4); high bits fold down.
  const uint64_t hash = pair * 0x9E3779B97F4A7C15ull;
  return (hash ^ (hash >> 32)) & mask;
}

}  // namespace

Bpe Bpe::build(const Vocabulary& vocabulary,
               const std::vector<BpeMerge>& merges,
               const BpeOptions& options) {
  Bpe bpe;
  bpe.vocabulary_ = &vocabulary;
  bpe.options_ = options;
  for (size_t byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    bpe.byte_ids_[byte] = vocabulary.find(std::string_view(&c, 1));
  }
  bpe.slots_.assign(std::bit_ceil(std::max<size_t>(2 * merges.size(), 16)), Slot{});
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const BpeMerge& merge = merges[rank];
    if (merge.result == kNoToken) continue;
    bpe.insert(merge.left, merge.right, {static_cast<uint32_t>(rank), merge.result});
  }
  bpe.find_whole_tokens();
  return bpe;
}

void Bpe::insert(int32_t left, int32_t right, Merge merge) {
  const uint64_t pair = pair_of(left, right);
  const size_t mask = slots_.size() - 1;
  size_t at = slot_of(pair, mask);
  while (slots_[at].pair != kNoPair && slots_[at].pair != pair) at = (at + 1) & mask;
  slots_[at] = {pair, merge};
}

Bpe::Merge Bpe::find_merge(int32_t left, int32_t right) const {
  const uint64_t pair = pair_of(left, right);
  const size_t mask = slots_.size() - 1;
  for (size_t at = slot_of(pair, mask); slots_[at].pair != kNoPair; at = (at + 1) & mask) {
    if (slots_[at].pair == pair) return slots_[at].merge;
  }
  return {};
}

// Most pieces of a text are tokens, and most tokens are what the merges make of their own spelling:
// found once, these need no merging later.
void Bpe::find_whole_tokens() {
  is_whole_.assign(static_cast<size_t>(vocabulary_->size()), options_.ignore_merges);
  if (options_.ignore_merges) return;
  BpeScratch scratch;
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < vocabulary_->size(); ++id) {
    const std::string_view spelling = vocabulary_->bytes(id);
    if (spelling.empty() || vocabulary_->find(spelling) != id) continue;
    ids.clear();
    initial_ids(spelling, scratch.ids_);
    merge_ids(scratch, ids);
    is_whole_[static_cast<size_t>(id)] = ids.size() == 1 && ids[0] == id;
  }
}

void Bpe::encode(std::string_view piece, BpeScratch& scratch, std::vector<int32_t>& out) const {
  if (piece.size() <= vocabulary_->longest_bytes()) {
    const int32_t id = vocabulary_->find(piece);
    if (id != kNoToken && is_whole_[static_cast<size_t>(id)]) {
      out.push_back(id);
      return;
    }
  }
  initial_ids(piece, scratch.ids_);
  merge_ids(scratch, out);
}

void Bpe::initial_ids(std::string_view piece, std::vector<int32_t>& ids) const {
  ids.clear();
  bool after_unknown = false;
  for (const char c : piece) {
    const int32_t id = byte_ids_[static_cast<unsigned char>(c)];
    const bool known = id != kNoToken;
    if (known) {
      ids.push_back(id);
    } else if (options_.unknown != kNoToken && !(options_.fuse_unknown && after_unknown)) {
      ids.push_back(options_.unknown);
    }
    after_unknown = !known;
  }
}

void Bpe::merge_ids(BpeScratch& scratch, std::vector<int32_t>& out) const {
  if (scratch.ids_.size() <= kShortSymbols) {
    merge_short(scratch.ids_, out);
  } else {
    merge_long(scratch, out);
  }
}

void Bpe::merge_short(const std::vector<int32_t>& ids, std::vector<int32_t>& out) const {
  std::array<int32_t, kShortSymbols> symbols;
  std::array<uint32_t, kShortSymbols> ranks;  // [i]: of the pair (i, i + 1)
  std::array<int32_t, kShortSymbols> results;
  size_t count = ids.size();
  std::copy(ids.begin(), ids.end(), symbols.begin());
  const auto look_up = [&](size_t i) {
    const Merge merge = find_merge(symbols[i], symbols[i + 1]);
    ranks[i] = merge.rank;
    results[i] = merge.result;
  };
  for (size_t i = 0; i + 1 < count; ++i) look_up(i);
  while (count > 1) {
    const auto pairs_end = ranks.begin() + static_cast<std::ptrdiff_t>(count - 1);
    const auto best = std::min_element(ranks.begin(), pairs_end);
    if (*best == kNoRank) break;
    const auto i = static_cast<size_t>(best - ranks.begin());
    symbols[i] = results[i];
    std::copy(symbols.begin() + i + 2, symbols.begin() + count, symbols.begin() + i + 1);
    if (i + 2 < count) {
      std::copy(ranks.begin() + i + 2, ranks.begin() + (count - 1), ranks.begin() + i + 1);
      std::copy(results.begin() + i + 2, results.begin() + (count - 1), results.begin() + i + 1);
    }
    --count;
    if (i > 0) look_up(i - 1);
    if (i + 1 < count) look_up(i);
  }
  out.insert(out.end(), symbols.begin(), symbols.begin() + static_cast<std::ptrdiff_t>(count));
}

void Bpe::merge_long(BpeScratch& scratch, std::vector<int32_t>& out) const {
  auto& symbols = scratch.symbols_;
  auto& heap = scratch.heap_;
  const auto count = static_cast<uint32_t>(scratch.ids_.size());
  symbols.resize(count);
  heap.clear();
  const auto look_up = [&](uint32_t at) {
    auto& symbol = symbols[at];
    const Merge merge =
        symbol.next == kNone ? Merge{} : find_merge(symbol.id, symbols[symbol.next].id);
    symbol.rank = merge.rank;
    symbol.result = merge.result;
    if (merge.rank == kNoRank) return false;
    heap.push_back((uint64_t{merge.rank} << 32) | at);
    return true;
  };
  for (uint32_t i = 0; i < count; ++i) {
    symbols[i] = {scratch.ids_[i], i - 1, i + 1 < count ? i + 1 : kNone, kNoRank, kNoToken};
  }
  for (uint32_t i = 0; i < count; ++i) look_up(i);
  const auto later = std::greater<uint64_t>();
  std::make_heap(heap.begin(), heap.end(), later);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const uint64_t top = heap.back();
    heap.pop_back();
    const auto at = static_cast<uint32_t>(top);
    auto& symbol = symbols[at];
    // An entry whose symbol has since merged away or merged otherwise is stale.
    if (symbol.id == kNoToken || symbol.rank != static_cast<uint32_t>(top >> 32)) continue;
    auto& gone = symbols[symbol.next];
    symbol.id = symbol.result;
    symbol.next = gone.next;
    gone.id = kNoToken;
    if (symbol.next != kNone) symbols[symbol.next].previous = at;
    if (look_up(at)) std::push_heap(heap.begin(), heap.end(), later);
    if (at != 0 && look_up(symbol.previous)) std::push_heap(heap.begin(), heap.end(), later);
  }
  for (uint32_t i = 0; i != kNone; i = symbols[i].next) out.push_back(symbols[i].id);
}

}  // namespace tandem::text
