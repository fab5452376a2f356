#pragma once
// Ids and the bytes they stand for, and the way back from bytes. Immutable after build; any thread.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace tandem::text {

constexpr int32_t kNoToken = -1;
// Published vocabularies end below 300,000.
constexpr int32_t kMaxVocabulary = 1 << 21;

class Vocabulary {
 public:
  // Adds `id`. `findable`: find() may answer it. Errors: kCorruptData for an id outside
  // [0, kMaxVocabulary) or given twice.
  Expected<void> add(int32_t id, std::string bytes, bool findable);

  // Builds the index of find(); add() is over. Where two findable ids stand for the same bytes, the
  // lower one is found.
  void finish();

  // One more than the largest id; ids in between may be missing.
  int32_t size() const { return static_cast<int32_t>(tokens_.size()); }
  bool has(int32_t id) const { return id >= 0 && id < size() && tokens_[index(id)].present; }
  // Empty for an id that is not there.
  std::string_view bytes(int32_t id) const;
  int32_t find(std::string_view bytes) const;
  size_t longest_bytes() const { return longest_bytes_; }

 private:
  struct Token {
    std::string bytes;
    bool present = false;
    bool findable = false;
  };
  struct Slot {
    uint32_t tag = 0;
    int32_t id = kNoToken;
  };
  static size_t index(int32_t id) { return static_cast<size_t>(id); }

  std::vector<Token> tokens_;
  std::vector<Slot> slots_;  // open addressing; the size is a power of two
  size_t longest_bytes_ = 0;
};

}  // namespace tandem::text
