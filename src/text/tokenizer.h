#pragma once
// Text to token ids and back: byte-level BPE as tokenizer.json describes it, ids equal to the
// tokenizers library's. Immutable after load: any thread, no locks.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/marked_text.h"
#include "text/tokenizer_config.h"

namespace tandem::text {

struct TokenizerSpec;

// What is put around the text.
enum class SequenceTokens {
  kNone,
  kFile,        // what tokenizer.json's post-processor adds
  kConfigured,  // that, and the begin and end tokens that tokenizer_config.json asks for
                // (add_bos_token, add_eos_token), unless the text already has them there
};

struct EncodeOptions {
  SequenceTokens around = SequenceTokens::kNone;
  // Whether text that spells a control token becomes that token.
  bool parse_special = true;
};

struct TextSegment {
  std::string_view text;
  bool parse_special = false;
};

class Tokenizer {
 public:
  // A longer text is refused; front ends refuse far shorter ones.
  static constexpr size_t kMaxTextBytes = 64 << 20;

  // `tokenizer_json`: the file's content. Errors: kCorruptData where the file contradicts itself or
  // its format, kUnsupported where it names what is not built; both name the key.
  static Expected<Tokenizer> parse(std::string_view tokenizer_json, const TokenizerConfig& config);
  // From parts, for vocabularies that stand in other files.
  static Expected<Tokenizer> build(TokenizerSpec spec, const TokenizerConfig& config);

  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  // Errors: kInvalidArgument for invalid UTF-8, too long a text, a regular expression's limit.
  Expected<std::vector<int32_t>> encode(std::string_view text, const EncodeOptions& options) const;
  // Control tokens are recognised outside the untrusted parts only; splitting and merging see the
  // text as a whole. This is how a rendered chat becomes ids.
  Expected<std::vector<int32_t>> encode(const MarkedText& text, SequenceTokens around) const;
  // The same for a list of segments.
  Expected<std::vector<int32_t>> encode(std::span<const TextSegment> segments,
                                        SequenceTokens around) const;

  // Ids that stand for nothing are left out, as special ones are if asked; what is not UTF-8
  // becomes U+FFFD.
  std::string decode(std::span<const int32_t> ids, bool skip_special_tokens) const;

  // One more than the largest id.
  int32_t vocab_size() const;
  // The bytes that `id` adds to a text (not always whole characters); empty if there is no such id.
  std::string_view token_bytes(int32_t id) const;
  bool has_token(int32_t id) const;
  // By content: an added token, else the token that stands for these bytes.
  std::optional<int32_t> token_to_id(std::string_view content) const;
  // Left out of decoded text with skip_special_tokens.
  bool is_special(int32_t id) const;
  // Never made from untrusted text (added_tokens.h).
  bool is_control(int32_t id) const;

  std::optional<int32_t> bos_id() const;
  std::optional<int32_t> eos_id() const;

 private:
  struct State;
  explicit Tokenizer(std::unique_ptr<const State> state);

  std::unique_ptr<const State> state_;
};

}  // namespace tandem::text
