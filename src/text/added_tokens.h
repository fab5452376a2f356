#pragma once
// Tokens that are recognised in the text itself, before any splitting: control tokens and other
// additions of tokenizer.json's `added_tokens`. Immutable after finish(); any thread.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "text/marked_text.h"
#include "text/vocabulary.h"

namespace tandem::text {

struct AddedToken {
  int32_t id = kNoToken;
  std::string content;
  bool single_word = false;  // not beside a letter, digit or mark
  bool lstrip = false;       // takes the blanks before it along
  bool rstrip = false;       // takes the blanks behind it along
  bool normalized = false;   // looked for after normalization, else before
  bool special = false;      // left out of the text when decoding
};

// Whether a client's text may never become this token: all special ones, and others that look like
// markup (<think>, [INST], <｜User｜> …: published files mark many control tokens as not special).
// What is left are words and blanks that a vocabulary adds as tokens; those are ordinary text.
bool is_control(const AddedToken& token);

// A part of a text: an added token, or (id = kNoToken) text still to be encoded.
struct TextPart {
  int32_t id = kNoToken;
  Range range;
};

// Recognises one set of contents in a text: the leftmost, then the longest.
class AddedTokenMatcher {
 public:
  // `content`: what is looked for (the normalized form, for tokens looked for after normalization).
  void add(const AddedToken& token, std::string_view content);
  bool empty() const { return tokens_.empty(); }

  // Appends the parts of `text` in order. A control token is not recognised where its text touches
  // a range of `untrusted` (sorted, disjoint).
  void split(std::string_view text,
             const std::vector<Range>& untrusted,
             std::vector<TextPart>& parts) const;

 private:
  struct Entry {
    int32_t id;
    size_t bytes;
    bool control;
    bool single_word;
    bool lstrip;
    bool rstrip;
  };
  const Entry* longest_at(std::string_view text,
                          size_t at,
                          const std::vector<Range>& untrusted) const;
  static bool stands_alone(std::string_view text, Range range);

  std::vector<Entry> tokens_;
  std::vector<int32_t> accepts_{-1};              // by trie node: index into tokens_, or -1
  std::unordered_map<uint64_t, uint32_t> edges_;  // (node, byte) -> node
  std::array<uint32_t, 256> roots_{};             // from node 0; 0 = none
};

}  // namespace tandem::text
