#pragma once
// What tokenizer_config.json says that tokenizer.json does not: the begin and end tokens, whether
// they are put around a prompt, and the chat template. Plain data.

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace tandem::text {

struct TokenizerConfig {
  // "bos_token", "eos_token", "pad_token", "unk_token", … with their contents: the variables of
  // these names in chat templates. In the file's order; null ones are left out.
  std::vector<std::pair<std::string, std::string>> special_tokens;
  bool add_bos_token = false;
  bool add_eos_token = false;
  // (name, source); a single template is named "default". May be empty (newer repositories have it
  // in chat_template.jinja).
  std::vector<std::pair<std::string, std::string>> chat_templates;

  std::optional<std::string> bos_token() const { return special_token("bos_token"); }
  std::optional<std::string> eos_token() const { return special_token("eos_token"); }
  std::optional<std::string> special_token(std::string_view key) const;
  std::optional<std::string> chat_template(std::string_view name) const;
};

// `json`: the file's content. Errors: kCorruptData, naming the key.
Expected<TokenizerConfig> parse_tokenizer_config(std::string_view json);

}  // namespace tandem::text
