#include "text/tokenizer.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/utf8.h"
#include "text/tokenizer_json.h"
#include "text/tokenizer_spec.h"

namespace tandem::text {
namespace {

constexpr uint8_t kSpecial = 1;
constexpr uint8_t kControl = 2;

}  // namespace

struct Tokenizer::State {
  TokenizerSpec spec;
  Bpe bpe;
  AddedTokenMatcher raw_matcher;         // on the text as it comes
  AddedTokenMatcher normalized_matcher;  // after normalization
  std::unordered_map<std::string, int32_t> added_ids;
  std::vector<uint8_t> flags;  // by id
  std::optional<int32_t> bos_id;
  std::optional<int32_t> eos_id;
  bool add_bos = false;
  bool add_eos = false;

  uint8_t flag(int32_t id) const {
    return id >= 0 && static_cast<size_t>(id) < flags.size() ? flags[static_cast<size_t>(id)] : 0;
  }
  std::optional<int32_t> find(std::string_view content) const {
    if (const auto it = added_ids.find(std::string(content)); it != added_ids.end()) {
      return it->second;
    }
    const int32_t id = spec.vocabulary.find(content);
    return id == kNoToken ? std::nullopt : std::optional(id);
  }
  Expected<void> index_added_tokens();
  Expected<void> configure(const TokenizerConfig& config);
};

namespace {

// One call of encode(): the scratch memory and the ids so far.
class Encoding final : private PieceSink {
 public:
  Encoding(const TokenizerSpec& spec, const Bpe& bpe, const AddedTokenMatcher& normalized)
      : spec_(spec), bpe_(bpe), normalized_(normalized) {}

  // Text between added tokens that are looked for before normalization.
  Expected<void> add_stretch(MarkedText stretch) {
    TANDEM_ASSIGN(stretch,
                  spec_.normalizer.run(std::move(stretch), Tokenizer::kMaxTextBytes * 4, regex_));
    return add_normalized(stretch.text(), stretch.untrusted());
  }

  Expected<void> add_normalized(std::string_view text, const std::vector<Range>& untrusted) {
    if (normalized_.empty()) return spec_.pre_tokenizer.run(text, regex_, *this);
    parts_.clear();
    normalized_.split(text, untrusted, parts_);
    for (const TextPart& part : parts_) {
      if (part.id != kNoToken) {
        ids.push_back(part.id);
        continue;
      }
      const Range range = part.range;
      TANDEM_TRY(spec_.pre_tokenizer.run(
          text.substr(range.begin, range.end - range.begin), regex_, *this));
    }
    return {};
  }

  std::vector<int32_t> ids;

 private:
  void piece(std::string_view piece) override { bpe_.encode(piece, bpe_scratch_, ids); }

  const TokenizerSpec& spec_;
  const Bpe& bpe_;
  const AddedTokenMatcher& normalized_;
  RegexScratch regex_;
  BpeScratch bpe_scratch_;
  std::vector<TextPart> parts_;
};

}  // namespace

Expected<void> Tokenizer::State::index_added_tokens() {
  flags.assign(static_cast<size_t>(spec.vocabulary.size()), 0);
  RegexScratch scratch;
  for (const AddedToken& token : spec.added_tokens) {
    if (!spec.vocabulary.has(token.id)) {
      return fail(ErrorCode::kCorruptData, "the added token '{}' has no id", token.content);
    }
    flags[static_cast<size_t>(token.id)] |= static_cast<uint8_t>(
        (token.special ? kSpecial : 0) | (text::is_control(token) ? kControl : 0));
    added_ids.emplace(token.content, token.id);
    if (!token.normalized) {
      raw_matcher.add(token, token.content);
      continue;
    }
    TANDEM_ASSIGN(const MarkedText content,
                  spec.normalizer.run(MarkedText(token.content, false), kMaxTextBytes, scratch));
    normalized_matcher.add(token, content.text());
  }
  return {};
}

Expected<void> Tokenizer::State::configure(const TokenizerConfig& config) {
  const auto look_up = [&](const std::optional<std::string>& content,
                           std::string_view key) -> Expected<std::optional<int32_t>> {
    if (!content) return std::nullopt;
    const auto id = find(*content);
    if (!id) {
      return fail(ErrorCode::kCorruptData,
                  "tokenizer_config.json: {} '{}' is not in the vocabulary",
                  key,
                  *content);
    }
    return id;
  };
  TANDEM_ASSIGN(bos_id, look_up(config.bos_token(), "bos_token"));
  TANDEM_ASSIGN(eos_id, look_up(config.eos_token(), "eos_token"));
  add_bos = config.add_bos_token && bos_id;
  add_eos = config.add_eos_token && eos_id;
  return {};
}

Tokenizer::Tokenizer(std::unique_ptr<const State> state) : state_(std::move(state)) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

Expected<Tokenizer> Tokenizer::parse(std::string_view tokenizer_json,
                                     const TokenizerConfig& config) {
  TANDEM_ASSIGN(TokenizerSpec spec, parse_tokenizer_json(tokenizer_json));
  return build(std::move(spec), config);
}

Expected<Tokenizer> Tokenizer::build(TokenizerSpec spec, const TokenizerConfig& config) {
  auto state = std::make_unique<State>();
  state->spec = std::move(spec);
  TANDEM_TRY(state->index_added_tokens());
  TANDEM_TRY(state->configure(config));
  state->bpe = Bpe::build(state->spec.vocabulary, state->spec.merges, state->spec.bpe);
  state->spec.merges = {};  // the model has its own table
  return Tokenizer(std::move(state));
}

Expected<std::vector<int32_t>> Tokenizer::encode(std::string_view text,
                                                 const EncodeOptions& options) const {
  const TextSegment segment{text, options.parse_special};
  return encode(std::span(&segment, 1), options.around);
}

Expected<std::vector<int32_t>> Tokenizer::encode(std::span<const TextSegment> segments,
                                                 SequenceTokens around) const {
  size_t bytes = 0;
  for (const TextSegment& segment : segments) {
    if (segment.text.size() > kMaxTextBytes) bytes = kMaxTextBytes;
    bytes += segment.text.size();
    if (bytes > kMaxTextBytes) {
      return fail(ErrorCode::kInvalidArgument, "the text has more than {} bytes", kMaxTextBytes);
    }
  }
  MarkedText joined;
  for (const TextSegment& segment : segments) joined.append(segment.text, !segment.parse_special);
  return encode(joined, around);
}

Expected<std::vector<int32_t>> Tokenizer::encode(const MarkedText& text,
                                                 SequenceTokens around) const {
  const State& state = *state_;
  if (text.size() > kMaxTextBytes) {
    return fail(ErrorCode::kInvalidArgument, "the text has more than {} bytes", kMaxTextBytes);
  }
  if (!utf8_is_valid(text.text())) {
    return fail(ErrorCode::kInvalidArgument, "the text is not valid UTF-8");
  }
  Encoding encoding(state.spec, state.bpe, state.normalized_matcher);
  std::vector<int32_t>& ids = encoding.ids;
  if (around != SequenceTokens::kNone) ids = state.spec.prefix_ids;
  std::vector<TextPart> parts;
  state.raw_matcher.split(text.text(), text.untrusted(), parts);
  const bool whole = parts.size() == 1 && parts[0].id == kNoToken;
  for (const TextPart& part : parts) {
    if (part.id != kNoToken) {
      ids.push_back(part.id);
    } else if (whole && state.spec.normalizer.empty()) {
      TANDEM_TRY(encoding.add_normalized(text.text(), text.untrusted()));
    } else {
      TANDEM_TRY(encoding.add_stretch(text.slice(part.range.begin, part.range.end)));
    }
  }
  if (around != SequenceTokens::kNone) {
    ids.insert(ids.end(), state.spec.suffix_ids.begin(), state.spec.suffix_ids.end());
  }
  if (around == SequenceTokens::kConfigured) {
    if (state.add_bos && (ids.empty() || ids.front() != *state.bos_id)) {
      ids.insert(ids.begin(), *state.bos_id);
    }
    if (state.add_eos && (ids.empty() || ids.back() != *state.eos_id)) {
      ids.push_back(*state.eos_id);
    }
  }
  return std::move(ids);
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  std::string bytes;
  for (const int32_t id : ids) {
    if (skip_special_tokens && is_special(id)) continue;
    bytes += token_bytes(id);
  }
  return utf8_replace_invalid(bytes);
}

int32_t Tokenizer::vocab_size() const { return state_->spec.vocabulary.size(); }
std::string_view Tokenizer::token_bytes(int32_t id) const {
  return state_->spec.vocabulary.bytes(id);
}
bool Tokenizer::has_token(int32_t id) const { return state_->spec.vocabulary.has(id); }
std::optional<int32_t> Tokenizer::token_to_id(std::string_view content) const {
  return state_->find(content);
}
bool Tokenizer::is_special(int32_t id) const { return (state_->flag(id) & kSpecial) != 0; }
bool Tokenizer::is_control(int32_t id) const { return (state_->flag(id) & kControl) != 0; }
std::optional<int32_t> Tokenizer::bos_id() const { return state_->bos_id; }
std::optional<int32_t> Tokenizer::eos_id() const { return state_->eos_id; }

}  // namespace tandem::text
