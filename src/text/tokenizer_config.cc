#include "text/tokenizer_config.h"

#include "base/json.h"

namespace tandem::text {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

std::optional<std::string> find(const Pairs& pairs, std::string_view key) {
  for (const auto& [name, value] : pairs) {
    if (name == key) return value;
  }
  return std::nullopt;
}

std::unexpected<Error> wrong(std::string_view key, std::string_view wanted) {
  return fail(ErrorCode::kCorruptData, "tokenizer_config.json: '{}' must be {}", key, wanted);
}

// A special token is a string or an object with its content; null means there is none. Of other
// keys that merely end in "_token" nothing is demanded.
Expected<std::optional<std::string>> token_content(const OrderedJson& value, std::string_view key) {
  if (value.is_null()) return std::nullopt;
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object()) {
    const auto content = value.find("content");
    if (content != value.end() && content->is_string()) return content->get<std::string>();
  }
  if (key == "bos_token" || key == "eos_token") {
    return wrong(key, "a string or an object with 'content'");
  }
  return std::nullopt;
}

Expected<bool> flag(const OrderedJson& object, const char* key) {
  const auto it = object.find(key);
  if (it == object.end() || it->is_null()) return false;
  if (!it->is_boolean()) return wrong(key, "true or false");
  return it->get<bool>();
}

Expected<Pairs> templates(const OrderedJson& object) {
  const auto it = object.find("chat_template");
  if (it == object.end() || it->is_null()) return Pairs{};
  if (it->is_string()) return Pairs{{"default", it->get<std::string>()}};
  if (!it->is_array()) return wrong("chat_template", "a string or a list");
  Pairs out;
  for (const OrderedJson& entry : *it) {
    const bool named = entry.is_object() && entry.contains("name") && entry.contains("template") &&
                       entry["name"].is_string() && entry["template"].is_string();
    if (!named) return wrong("chat_template", "a list of objects with 'name' and 'template'");
    out.emplace_back(entry["name"].get<std::string>(), entry["template"].get<std::string>());
  }
  return out;
}

}  // namespace

std::optional<std::string> TokenizerConfig::special_token(std::string_view key) const {
  return find(special_tokens, key);
}

std::optional<std::string> TokenizerConfig::chat_template(std::string_view name) const {
  return find(chat_templates, name);
}

Expected<TokenizerConfig> parse_tokenizer_config(std::string_view json) {
  auto parsed = parse_ordered_json(json);
  if (!parsed) {
    return fail(ErrorCode::kCorruptData, "tokenizer_config.json: {}", parsed.error().message);
  }
  const OrderedJson& object = *parsed;
  if (!object.is_object()) {
    return fail(ErrorCode::kCorruptData, "tokenizer_config.json: must be an object");
  }
  TokenizerConfig config;
  for (const auto& [key, value] : object.items()) {
    const bool token = key.ends_with("_token") && !key.starts_with("add_") && !value.is_boolean();
    if (!token) continue;
    TANDEM_ASSIGN(const auto content, token_content(value, key));
    if (content) config.special_tokens.emplace_back(key, *content);
  }
  TANDEM_ASSIGN(config.add_bos_token, flag(object, "add_bos_token"));
  TANDEM_ASSIGN(config.add_eos_token, flag(object, "add_eos_token"));
  TANDEM_ASSIGN(config.chat_templates, templates(object));
  return config;
}

}  // namespace tandem::text
