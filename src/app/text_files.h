#pragma once
// The text half of a checkpoint folder: tokenizer and chat template.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace tandem::app {

struct TextFiles {
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::unique_ptr<text::ChatTemplate> chat_template;                // null: the checkpoint has none
  std::vector<std::pair<std::string, std::string>> special_tokens;  // bos_token, eos_token …
};

// tokenizer.json, tokenizer_config.json, chat_template.jinja. Errors name the file.
Expected<TextFiles> read_text_files(const std::string& directory);

// For random weights without a tokenizer: ids 0 … 255 are bytes. No chat template.
Expected<TextFiles> byte_text_files();

}  // namespace tandem::app
