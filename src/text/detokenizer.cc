#include "text/detokenizer.h"

#include <algorithm>
#include <string_view>

#include "base/utf8.h"

namespace tandem::text {
namespace {

constexpr size_t kLongestCodePoint = 4;
// Text is released sooner where ids keep ending in unfinished code points.
constexpr size_t kMostHeldBytes = 64;

// Where the unfinished code point at the end of `bytes` starts; bytes.size() if there is none.
size_t unfinished_start(std::string_view bytes) {
  const size_t most = std::min(bytes.size(), kLongestCodePoint - 1);
  for (size_t length = 1; length <= most; ++length) {
    const size_t start = bytes.size() - length;
    if ((static_cast<unsigned char>(bytes[start]) & 0xC0) == 0x80) continue;
    return utf8_is_incomplete_prefix(bytes.substr(start)) ? start : bytes.size();
  }
  return bytes.size();
}

}  // namespace

Detokenizer::Detokenizer(const Tokenizer& tokenizer, bool skip_special_tokens)
    : tokenizer_(&tokenizer), skip_special_tokens_(skip_special_tokens) {}

void Detokenizer::prime(std::span<const int32_t> prompt_ids) {
  // Only the last three bytes can be unfinished; an id has at least one unless it is skipped.
  std::string tail;
  for (size_t i = prompt_ids.size(); i > 0 && tail.size() < kLongestCodePoint; --i) {
    const int32_t id = prompt_ids[i - 1];
    if (skip_special_tokens_ && tokenizer_->is_special(id)) continue;
    tail.insert(0, tokenizer_->token_bytes(id));
  }
  held_ = tail.substr(unfinished_start(tail));
  held_by_prompt_ = !held_.empty();
}

std::string Detokenizer::push(int32_t id) {
  if (skip_special_tokens_ && tokenizer_->is_special(id)) return {};
  const std::string_view bytes = tokenizer_->token_bytes(id);
  if (bytes.empty()) return {};
  if (held_by_prompt_) {
    const std::string joined = held_ + std::string(bytes.substr(0, kLongestCodePoint));
    const bool continues = utf8_sequence_length(joined) > 0 || utf8_is_incomplete_prefix(joined);
    if (!continues) held_.clear();
    held_by_prompt_ = false;
  }
  held_ += bytes;
  const size_t whole = unfinished_start(held_);
  // Like the reference, an id that ends in an unfinished code point completes nothing yet.
  if (whole < held_.size() && held_.size() <= kMostHeldBytes) return {};
  std::string out = utf8_replace_invalid(std::string_view(held_).substr(0, whole));
  held_.erase(0, whole);
  return out;
}

std::string Detokenizer::flush() {
  std::string out;
  if (!held_by_prompt_) out = utf8_replace_invalid(held_);
  held_.clear();
  held_by_prompt_ = false;
  return out;
}

}  // namespace tandem::text
