#pragma once
// Byte-level byte-pair encoding of one piece: from single bytes, always the pair of lowest rank is
// merged, the leftmost first. n log n in the piece's length at worst.
// Immutable after build; any thread, each with its own BpeScratch.

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/vocabulary.h"

namespace tandem::text {

// A result of kNoToken: never applied.
struct BpeMerge {
  int32_t left = kNoToken;
  int32_t right = kNoToken;
  int32_t result = kNoToken;
};

struct BpeOptions {
  bool ignore_merges = false;  // a piece that is a token is that token, whatever the merges say
  int32_t unknown = kNoToken;  // for a byte without a token; none: the byte is dropped
  bool fuse_unknown = false;   // one `unknown` for adjoining ones
};

// Working memory; one thread at a time.
class BpeScratch {
 private:
  friend class Bpe;
  struct Symbol {
    int32_t id;
    uint32_t previous;
    uint32_t next;
    uint32_t rank;  // of the merge with the next symbol
    int32_t result;
  };
  std::vector<int32_t> ids_;
  std::vector<Symbol> symbols_;
  std::vector<uint64_t> heap_;
};

class Bpe {
 public:
  // `vocabulary` is finished, outlives this object and does not move. `merges` in order of rank; of
  // a pair given twice the later rank counts, as in the tokenizers library.
  static Bpe build(const Vocabulary& vocabulary,
                   const std::vector<BpeMerge>& merges,
                   const BpeOptions& options);

  // Appends the ids of `piece`.
  void encode(std::string_view piece, BpeScratch& scratch, std::vector<int32_t>& out) const;

 private:
  struct Merge {
    uint32_t rank = kNoRank;
    int32_t result = kNoToken;
  };
  struct Slot {
    uint64_t pair = kNoPair;
    Merge merge;
  };
  static constexpr uint32_t kNoRank = UINT32_MAX;
  static constexpr uint64_t kNoPair = UINT64_MAX;

  void insert(int32_t left, int32_t right, Merge merge);
  Merge find_merge(int32_t left, int32_t right) const;
  void initial_ids(std::string_view piece, std::vector<int32_t>& ids) const;
  void merge_ids(BpeScratch& scratch, std::vector<int32_t>& out) const;
  void merge_short(const std::vector<int32_t>& ids, std::vector<int32_t>& out) const;
  void merge_long(BpeScratch& scratch, std::vector<int32_t>& out) const;
  void find_whole_tokens();

  const Vocabulary* vocabulary_ = nullptr;
  BpeOptions options_;
  std::array<int32_t, 256> byte_ids_{};
  std::vector<Slot> slots_;     // open addressing; the size is a power of two
  std::vector<bool> is_whole_;  // by id: the piece that spells the token is encoded as the token
};

}  // namespace tandem::text
