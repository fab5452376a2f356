#pragma once
// All parts of a tokenizer, as read from a file. Plain data.

#include <cstdint>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/vocabulary.h"

namespace tandem::text {

struct TokenizerSpec {
  Vocabulary vocabulary;         // finished; holds the added tokens too (not findable)
  std::vector<BpeMerge> merges;  // by rank
  BpeOptions bpe;
  std::vector<AddedToken> added_tokens;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  // What the post-processor puts around one sequence.
  std::vector<int32_t> prefix_ids;
  std::vector<int32_t> suffix_ids;
};

}  // namespace tandem::text
