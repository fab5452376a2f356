#pragma once
// Token ids to text, one id at a time, never half a code point. The deltas and the final flush()
// joined are what Tokenizer::decode gives for the whole.
// One object a sequence; one thread at a time. The tokenizer outlives it.

#include <cstdint>
#include <span>
#include <string>

#include "text/tokenizer.h"

namespace tandem::text {

class Detokenizer {
 public:
  Detokenizer(const Tokenizer& tokenizer, bool skip_special_tokens);

  // The prompt before the first push: a code point that the prompt leaves unfinished is finished
  // (and then written) by what follows; if it never is, nothing is written for it.
  void prime(std::span<const int32_t> prompt_ids);

  // The text that `id` completes; empty if it ends in an unfinished code point (then all of it
  // comes with a later id). Bytes that can no longer become valid are U+FFFD.
  std::string push(int32_t id);

  // The end: an unfinished code point becomes U+FFFD.
  std::string flush();

  // Bytes held back at the moment: at most 64.
  size_t held_bytes() const { return held_.size(); }

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_tokens_;
  std::string held_;             // ends in a proper beginning of a code point
  bool held_by_prompt_ = false;  // all of held_ is the prompt's
};

}  // namespace tandem::text
