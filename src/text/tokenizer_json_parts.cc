#include "text/tokenizer_json_parts.h"

#include <fmt/core.h>

namespace tandem::text {
namespace {

// Nesting of Sequences; the JSON parser bounds it too.
constexpr int kMaxDepth = 8;

// GPT-2's split rule, which the byte-level step applies if `use_regex` (its published encoder).
constexpr std::string_view kGpt2Pattern =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

// What other rules of the tokenizers library mean as patterns: char::is_numeric; ASCII punctuation
// and category P; Rust's \w (which has the joiners, but not Oniguruma's superscripts); White_Space.
constexpr std::string_view kDigitPattern = "\\p{N}";
constexpr std::string_view kPunctuationPattern = "[\\p{P}$+<=>^`|~]";
constexpr std::string_view kWordPattern =
    "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}]+|"
    "[^\\s\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}]+";
constexpr std::string_view kBlankPattern = "\\s";

Expected<Regex> compile(const JsonNode& node, std::string_view pattern, bool literal) {
  auto regex = literal ? Regex::compile_literal(pattern) : Regex::compile(pattern);
  if (!regex) return node.unsupported(regex.error().message);
  return regex;
}

// {"Regex": "…"} or {"String": "…"}.
Expected<Regex> read_pattern(const JsonNode& node) {
  const bool literal = !node["String"].missing();
  if (!literal && node["Regex"].missing()) return node.corrupt("must have 'Regex' or 'String'");
  TANDEM_ASSIGN(const std::string pattern, node[literal ? "String" : "Regex"].string());
  if (literal && pattern.empty()) return node.unsupported("an empty pattern is not supported");
  return compile(node, pattern, literal);
}

Expected<SplitBehavior> read_behavior(const JsonNode& node) {
  TANDEM_ASSIGN(const std::string name, node.string());
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  return node.unsupported("the behavior '" + name + "' is not supported");
}

Expected<void> read_normalizer_at(const JsonNode& node, int depth, TokenizerSpec& spec) {
  if (depth > kMaxDepth) return node.unsupported("nested too deep");
  TANDEM_ASSIGN(const std::string type, node.type());
  if (type == "Sequence") {
    const JsonNode list = node["normalizers"];
    TANDEM_ASSIGN(const size_t count, list.array_size());
    for (size_t i = 0; i < count; ++i) {
      TANDEM_TRY(read_normalizer_at(list[i], depth + 1, spec));
    }
  } else if (type == "NFC") {
    spec.normalizer.add(NormalForm::kNfc);
  } else if (type == "NFD") {
    spec.normalizer.add(NormalForm::kNfd);
  } else if (type == "NFKC") {
    spec.normalizer.add(NormalForm::kNfkc);
  } else if (type == "NFKD") {
    spec.normalizer.add(NormalForm::kNfkd);
  } else if (type == "Lowercase") {
    spec.normalizer.add(LowercaseStep{});
  } else if (type == "Prepend") {
    TANDEM_ASSIGN(std::string text, node["prepend"].string());
    spec.normalizer.add(PrependStep{std::move(text)});
  } else if (type == "Replace") {
    TANDEM_ASSIGN(Regex pattern, read_pattern(node["pattern"]));
    TANDEM_ASSIGN(std::string by, node["content"].string());
    spec.normalizer.add(ReplaceStep{std::move(pattern), std::move(by)});
  } else if (type == "Strip") {
    TANDEM_ASSIGN(const bool left, node["strip_left"].boolean(true));
    TANDEM_ASSIGN(const bool right, node["strip_right"].boolean(true));
    spec.normalizer.add(StripStep{left, right});
  } else {
    return node.unsupported("the normalizer '" + type + "' is not supported");
  }
  return {};
}

struct PreTokenizerReader {
  TokenizerSpec& spec;
  bool byte_level_seen = false;

  Expected<void> add(const JsonNode& node,
                     std::string_view pattern,
                     SplitBehavior behavior,
                     bool invert) {
    TANDEM_ASSIGN(Regex regex, compile(node, pattern, /*literal=*/false));
    spec.pre_tokenizer.add_split(std::move(regex), behavior, invert);
    return {};
  }

  Expected<void> read_byte_level(const JsonNode& node) {
    TANDEM_ASSIGN(const bool prefix_space, node["add_prefix_space"].boolean(true));
    TANDEM_ASSIGN(const bool use_regex, node["use_regex"].boolean(true));
    if (prefix_space) spec.pre_tokenizer.add_prefix_space();
    if (use_regex) TANDEM_TRY(add(node, kGpt2Pattern, SplitBehavior::kIsolated, false));
    byte_level_seen = true;
    return {};
  }

  Expected<void> read_split(const JsonNode& node) {
    TANDEM_ASSIGN(Regex regex, read_pattern(node["pattern"]));
    TANDEM_ASSIGN(const SplitBehavior behavior, read_behavior(node["behavior"]));
    TANDEM_ASSIGN(const bool invert, node["invert"].boolean(false));
    spec.pre_tokenizer.add_split(std::move(regex), behavior, invert);
    return {};
  }

  Expected<void> read(const JsonNode& node, int depth) {
    if (depth > kMaxDepth) return node.unsupported("nested too deep");
    TANDEM_ASSIGN(const std::string type, node.type());
    if (byte_level_seen) {
      return node.unsupported("'" + type + "' behind the byte-level step is not supported");
    }
    if (type == "Sequence") {
      const JsonNode list = node["pretokenizers"];
      TANDEM_ASSIGN(const size_t count, list.array_size());
      for (size_t i = 0; i < count; ++i) TANDEM_TRY(read(list[i], depth + 1));
      return {};
    }
    if (type == "ByteLevel") return read_byte_level(node);
    if (type == "Split") return read_split(node);
    if (type == "Digits") {
      TANDEM_ASSIGN(const bool individual, node["individual_digits"].boolean(false));
      return add(node,
                 kDigitPattern,
                 individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous,
                 false);
    }
    if (type == "Punctuation") {
      SplitBehavior behavior = SplitBehavior::kIsolated;
      if (!node["behavior"].missing()) {
        TANDEM_ASSIGN(behavior, read_behavior(node["behavior"]));
      }
      return add(node, kPunctuationPattern, behavior, false);
    }
    if (type == "Whitespace") return add(node, kWordPattern, SplitBehavior::kRemoved, true);
    if (type == "WhitespaceSplit") return add(node, kBlankPattern, SplitBehavior::kRemoved, false);
    return node.unsupported("the pre-tokenizer '" + type + "' is not supported");
  }
};

// The ids of a special token that the template names.
Expected<std::vector<int32_t>> template_ids(const JsonNode& specials,
                                            const JsonNode& item,
                                            const TokenizerSpec& spec) {
  TANDEM_ASSIGN(const std::string name, item["id"].string());
  const JsonNode list = specials[name]["ids"];
  TANDEM_ASSIGN(const size_t count, list.array_size());
  std::vector<int32_t> ids;
  for (size_t i = 0; i < count; ++i) {
    TANDEM_ASSIGN(const int64_t id, list[i].integer(0, kMaxVocabulary - 1));
    if (!spec.vocabulary.has(static_cast<int32_t>(id))) {
      return list[i].corrupt(fmt::format("{} is no id of the vocabulary", id));
    }
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

Expected<void> read_template(const JsonNode& node, TokenizerSpec& spec) {
  const JsonNode single = node["single"];
  TANDEM_ASSIGN(const size_t count, single.array_size());
  std::vector<int32_t> prefix;
  std::vector<int32_t> suffix;
  bool text_seen = false;
  for (size_t i = 0; i < count; ++i) {
    const JsonNode item = single[i];
    if (!item["Sequence"].missing()) {
      TANDEM_ASSIGN(const std::string which, item["Sequence"]["id"].string());
      if (text_seen || which != "A") return item.corrupt("must be the sequence 'A', once");
      text_seen = true;
    } else if (!item["SpecialToken"].missing()) {
      TANDEM_ASSIGN(const auto ids,
                    template_ids(node["special_tokens"], item["SpecialToken"], spec));
      auto& side = text_seen ? suffix : prefix;
      side.insert(side.end(), ids.begin(), ids.end());
    } else {
      return item.corrupt("must have 'Sequence' or 'SpecialToken'");
    }
  }
  if (!text_seen) return single.corrupt("must have the sequence 'A'");
  spec.prefix_ids.insert(spec.prefix_ids.begin(), prefix.begin(), prefix.end());
  spec.suffix_ids.insert(spec.suffix_ids.end(), suffix.begin(), suffix.end());
  return {};
}

Expected<void> read_post_processor_at(const JsonNode& node, int depth, TokenizerSpec& spec) {
  if (depth > kMaxDepth) return node.unsupported("nested too deep");
  TANDEM_ASSIGN(const std::string type, node.type());
  if (type == "ByteLevel") return {};  // moves offsets only
  if (type == "TemplateProcessing") return read_template(node, spec);
  if (type != "Sequence") {
    return node.unsupported("the post-processor '" + type + "' is not supported");
  }
  const JsonNode list = node["processors"];
  TANDEM_ASSIGN(const size_t count, list.array_size());
  for (size_t i = 0; i < count; ++i) {
    TANDEM_TRY(read_post_processor_at(list[i], depth + 1, spec));
  }
  return {};
}

// Finds the byte-level decoder. Fuse only joins what is joined already.
Expected<void> check_decoder_at(const JsonNode& node, int depth, bool& byte_level) {
  if (depth > kMaxDepth) return node.unsupported("nested too deep");
  TANDEM_ASSIGN(const std::string type, node.type());
  if (type == "ByteLevel") {
    byte_level = true;
    return {};
  }
  if (type == "Fuse") return {};
  if (type != "Sequence") return node.unsupported("the decoder '" + type + "' is not supported");
  const JsonNode list = node["decoders"];
  TANDEM_ASSIGN(const size_t count, list.array_size());
  for (size_t i = 0; i < count; ++i) TANDEM_TRY(check_decoder_at(list[i], depth + 1, byte_level));
  return {};
}

}  // namespace

JsonNode JsonNode::operator[](std::string_view key) const {
  JsonNode out{nullptr, path.empty() ? std::string(key) : path + "." + std::string(key)};
  if (value != nullptr && value->is_object()) {
    const auto it = value->find(key);
    if (it != value->end()) out.value = &*it;
  }
  return out;
}

JsonNode JsonNode::operator[](size_t index) const {
  JsonNode out{nullptr, fmt::format("{}[{}]", path, index)};
  if (value != nullptr && value->is_array() && index < value->size()) out.value = &(*value)[index];
  return out;
}

std::unexpected<Error> JsonNode::corrupt(std::string_view what) const {
  return fail(ErrorCode::kCorruptData, "tokenizer.json: '{}' {}", path, what);
}

std::unexpected<Error> JsonNode::unsupported(std::string_view what) const {
  return fail(ErrorCode::kUnsupported, "tokenizer.json: '{}': {}", path, what);
}

Expected<std::string> JsonNode::string() const {
  if (value == nullptr || !value->is_string()) return corrupt("must be a string");
  return value->get<std::string>();
}

Expected<bool> JsonNode::boolean(bool if_missing) const {
  if (missing()) return if_missing;
  if (!value->is_boolean()) return corrupt("must be true or false");
  return value->get<bool>();
}

Expected<int64_t> JsonNode::integer(int64_t low, int64_t high) const {
  const bool fits = value != nullptr && value->is_number_integer() &&
                    !(value->is_number_unsigned() && value->get<uint64_t>() > INT64_MAX);
  if (!fits || value->get<int64_t>() < low || value->get<int64_t>() > high) {
    return corrupt(fmt::format("must be an integer from {} to {}", low, high));
  }
  return value->get<int64_t>();
}

Expected<size_t> JsonNode::array_size() const {
  if (value == nullptr || !value->is_array()) return corrupt("must be a list");
  return value->size();
}

Expected<void> read_normalizer(const JsonNode& node, TokenizerSpec& spec) {
  return node.missing() ? Expected<void>() : read_normalizer_at(node, 0, spec);
}

Expected<void> read_pre_tokenizer(const JsonNode& node, TokenizerSpec& spec) {
  PreTokenizerReader reader{spec};
  if (!node.missing()) TANDEM_TRY(reader.read(node, 0));
  if (!reader.byte_level_seen) {
    return node.unsupported("a tokenizer without the ByteLevel pre-tokenizer is not supported");
  }
  return {};
}

Expected<void> read_post_processor(const JsonNode& node, TokenizerSpec& spec) {
  return node.missing() ? Expected<void>() : read_post_processor_at(node, 0, spec);
}

Expected<void> check_decoder(const JsonNode& node) {
  bool byte_level = false;
  if (!node.missing()) TANDEM_TRY(check_decoder_at(node, 0, byte_level));
  if (!byte_level) {
    return node.unsupported("a tokenizer without the ByteLevel decoder is not supported");
  }
  return {};
}

}  // namespace tandem::text
