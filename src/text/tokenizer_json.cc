#include "text/tokenizer_json.h"

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/json.h"
#include "text/byte_level.h"
#include "text/tokenizer_json_parts.h"

namespace tandem::text {
namespace {

// The largest published file has 33 MB.
constexpr size_t kMaxFileBytes = 256u << 20;

using IdsByString = std::unordered_map<std::string_view, int32_t>;

// Keys of the model that change the result and are not built.
Expected<void> check_model(const JsonNode& model) {
  if (!model["type"].missing()) {
    TANDEM_ASSIGN(const std::string type, model.type());
    if (type != "BPE") {
      return model["type"].unsupported("the model '" + type + "' is not supported");
    }
  }
  if (!model["dropout"].missing()) {
    const Json& dropout = *model["dropout"].value;
    if (!dropout.is_number() || dropout.get<double>() != 0.0) {
      return model["dropout"].unsupported("dropout is not supported");
    }
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (model[key].missing()) continue;
    TANDEM_ASSIGN(const std::string text, model[key].string());
    if (!text.empty()) return model[key].unsupported("only an empty one is supported");
  }
  TANDEM_ASSIGN(const bool byte_fallback, model["byte_fallback"].boolean(false));
  if (byte_fallback) {
    return model["byte_fallback"].unsupported("vocabularies with byte fallback are not supported");
  }
  return {};
}

Expected<std::vector<AddedToken>> read_added_tokens(const JsonNode& list) {
  std::vector<AddedToken> tokens;
  if (list.missing()) return tokens;
  TANDEM_ASSIGN(const size_t count, list.array_size());
  for (size_t i = 0; i < count; ++i) {
    const JsonNode node = list[i];
    AddedToken token;
    TANDEM_ASSIGN(const int64_t id, node["id"].integer(0, kMaxVocabulary - 1));
    token.id = static_cast<int32_t>(id);
    TANDEM_ASSIGN(token.content, node["content"].string());
    TANDEM_ASSIGN(token.single_word, node["single_word"].boolean(false));
    TANDEM_ASSIGN(token.lstrip, node["lstrip"].boolean(false));
    TANDEM_ASSIGN(token.rstrip, node["rstrip"].boolean(false));
    TANDEM_ASSIGN(token.special, node["special"].boolean(false));
    TANDEM_ASSIGN(token.normalized, node["normalized"].boolean(!token.special));
    tokens.push_back(std::move(token));
  }
  return tokens;
}

// Reads the vocabulary and puts the added tokens into it. `ids` keeps views into the JSON.
Expected<void> read_vocabulary(const JsonNode& vocab, TokenizerSpec& spec, IdsByString& ids) {
  if (vocab.missing() || !vocab.value->is_object()) return vocab.corrupt("must be an object");
  std::unordered_map<std::string_view, const AddedToken*> added;
  for (const AddedToken& token : spec.added_tokens) added.emplace(token.content, &token);
  ids.reserve(vocab.value->size());
  for (auto entry = vocab.value->begin(); entry != vocab.value->end(); ++entry) {
    const std::string& written = entry.key();
    const auto id = JsonNode{&*entry, ""}.integer(0, kMaxVocabulary - 1);
    if (!id) return fail(vocab[written].integer(0, kMaxVocabulary - 1).error());
    auto bytes = bytes_of_byte_level(written);
    const auto it = added.find(written);
    const bool control = it != added.end() && is_control(*it->second);
    // Only what is written in the byte-level alphabet can come out of BPE; control tokens must not.
    const bool findable = bytes.has_value() && (!control || bytes->size() == 1);
    auto outcome =
        spec.vocabulary.add(static_cast<int32_t>(*id), bytes ? *bytes : written, findable);
    if (!outcome) return vocab[written].corrupt(outcome.error().message);
    ids.emplace(written, static_cast<int32_t>(*id));
  }
  for (size_t i = 0; i < spec.added_tokens.size(); ++i) {
    const AddedToken& token = spec.added_tokens[i];
    const auto known = ids.find(token.content);
    if (known != ids.end()) {
      if (known->second == token.id) continue;
      return fail(ErrorCode::kCorruptData,
                  "tokenizer.json: 'added_tokens[{}]' has id {}, but 'model.vocab' says {}",
                  i,
                  token.id,
                  known->second);
    }
    auto bytes = bytes_of_byte_level(token.content);
    auto outcome = spec.vocabulary.add(token.id, bytes ? *bytes : token.content, false);
    if (!outcome) {
      return fail(ErrorCode::kCorruptData,
                  "tokenizer.json: 'added_tokens[{}]': {}",
                  i,
                  outcome.error().message);
    }
  }
  spec.vocabulary.finish();
  return {};
}

// One merge: "left right", or ["left", "right"].
std::optional<std::pair<std::string_view, std::string_view>> merge_sides(const Json& value) {
  if (value.is_array() && value.size() == 2 && value[0].is_string() && value[1].is_string()) {
    return std::pair<std::string_view, std::string_view>(value[0].get_ref<const std::string&>(),
                                                         value[1].get_ref<const std::string&>());
  }
  if (value.is_string()) {
    const std::string_view both = value.get_ref<const std::string&>();
    const size_t blank = both.find(' ');
    if (blank != both.npos && both.find(' ', blank + 1) == both.npos) {
      return std::pair(both.substr(0, blank), both.substr(blank + 1));
    }
  }
  return std::nullopt;
}

Expected<void> read_merges(const JsonNode& list, const IdsByString& ids, TokenizerSpec& spec) {
  TANDEM_ASSIGN(const size_t count, list.array_size());
  std::vector<uint8_t> control(static_cast<size_t>(spec.vocabulary.size()), 0);
  for (const AddedToken& token : spec.added_tokens) {
    if (is_control(token)) control[static_cast<size_t>(token.id)] = 1;
  }
  spec.merges.reserve(count);
  std::string joined;
  for (size_t i = 0; i < count; ++i) {
    const auto sides = merge_sides((*list.value)[i]);
    if (!sides) return list[i].corrupt("must be two tokens");
    joined.assign(sides->first).append(sides->second);
    const auto left = ids.find(sides->first);
    const auto right = ids.find(sides->second);
    const auto result = ids.find(joined);
    if (left == ids.end() || right == ids.end() || result == ids.end()) {
      return list[i].corrupt("has a token that is not in 'model.vocab'");
    }
    BpeMerge merge{left->second, right->second, result->second};
    // A control token cannot be merged into being. The rank stays taken.
    if (control[static_cast<size_t>(merge.result)] != 0) merge = {};
    spec.merges.push_back(merge);
  }
  return {};
}

bool has_all_bytes(const Vocabulary& vocabulary) {
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    if (vocabulary.find(std::string_view(&c, 1)) == kNoToken) return false;
  }
  return true;
}

Expected<void> read_model(const JsonNode& model, TokenizerSpec& spec) {
  if (model.missing() || !model.value->is_object()) return model.corrupt("must be an object");
  TANDEM_TRY(check_model(model));
  IdsByString ids;
  TANDEM_TRY(read_vocabulary(model["vocab"], spec, ids));
  TANDEM_TRY(read_merges(model["merges"], ids, spec));
  TANDEM_ASSIGN(spec.bpe.ignore_merges, model["ignore_merges"].boolean(false));
  TANDEM_ASSIGN(spec.bpe.fuse_unknown, model["fuse_unk"].boolean(false));
  if (!model["unk_token"].missing()) {
    TANDEM_ASSIGN(const std::string unknown, model["unk_token"].string());
    const auto it = ids.find(unknown);
    if (it != ids.end()) {
      spec.bpe.unknown = it->second;
    } else if (!has_all_bytes(spec.vocabulary)) {  // else it is never needed
      return model["unk_token"].corrupt("is not in 'model.vocab'");
    }
  }
  return {};
}

}  // namespace

Expected<TokenizerSpec> parse_tokenizer_json(std::string_view json) {
  if (json.size() > kMaxFileBytes) {
    return fail(ErrorCode::kUnsupported,
                "tokenizer.json: has {} bytes, more than {}",
                json.size(),
                kMaxFileBytes);
  }
  auto parsed = parse_json(json);
  if (!parsed) return fail(ErrorCode::kCorruptData, "tokenizer.json: {}", parsed.error().message);
  if (!parsed->is_object()) {
    return fail(ErrorCode::kCorruptData, "tokenizer.json: must be an object");
  }
  const JsonNode root{&*parsed, ""};
  TokenizerSpec spec;
  TANDEM_ASSIGN(spec.added_tokens, read_added_tokens(root["added_tokens"]));
  TANDEM_TRY(read_model(root["model"], spec));
  TANDEM_TRY(read_normalizer(root["normalizer"], spec));
  TANDEM_TRY(read_pre_tokenizer(root["pre_tokenizer"], spec));
  TANDEM_TRY(read_post_processor(root["post_processor"], spec));
  TANDEM_TRY(check_decoder(root["decoder"]));
  return spec;
}

}  // namespace tandem::text
