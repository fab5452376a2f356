#include "app/text_files.h"

#include "system/files.h"
#include "text/tokenizer_config.h"
#include "text/tokenizer_spec.h"

namespace tandem::app {
namespace {

constexpr size_t kMaxTokenizerBytes = 256 << 20;
constexpr size_t kMaxConfigBytes = 16 << 20;
constexpr size_t kMaxTemplateBytes = 1 << 20;

// Puts the file's name before what is wrong in it.
std::unexpected<Error> in_file(const std::string& path, Error error) {
  error.message = path + ": " + error.message;
  return std::unexpected(std::move(error));
}

Expected<text::TokenizerConfig> read_config(const std::string& path) {
  if (!system::is_regular_file(path)) return text::TokenizerConfig{};
  TANDEM_ASSIGN(const std::string json, system::read_text_file(path, kMaxConfigBytes));
  auto config = text::parse_tokenizer_config(json);
  if (!config) return in_file(path, config.error());
  return config;
}

// chat_template.jinja, as newer checkpoints have it, wins over the one in tokenizer_config.json.
Expected<std::optional<std::string>> template_source(const std::string& directory,
                                                     const text::TokenizerConfig& config) {
  const std::string path = directory + "/chat_template.jinja";
  if (!system::is_regular_file(path)) return config.chat_template("default");
  return system::read_text_file(path, kMaxTemplateBytes);
}

}  // namespace

Expected<TextFiles> read_text_files(const std::string& directory) {
  const std::string config_path = directory + "/tokenizer_config.json";
  TANDEM_ASSIGN(const text::TokenizerConfig config, read_config(config_path));
  const std::string path = directory + "/tokenizer.json";
  TANDEM_ASSIGN(const std::string json, system::read_text_file(path, kMaxTokenizerBytes));
  auto tokenizer = text::Tokenizer::parse(json, config);
  if (!tokenizer) return in_file(path, tokenizer.error());
  TextFiles out;
  out.special_tokens = config.special_tokens;
  out.tokenizer = std::make_unique<text::Tokenizer>(std::move(*tokenizer));
  TANDEM_ASSIGN(const auto source, template_source(directory, config));
  if (!source) return out;
  auto chat = text::ChatTemplate::parse(*source);
  if (!chat) return in_file("chat template of " + directory, chat.error());
  out.chat_template = std::make_unique<text::ChatTemplate>(std::move(*chat));
  return out;
}

Expected<TextFiles> byte_text_files() {
  text::TokenizerSpec spec;
  for (int byte = 0; byte < 256; ++byte) {
    TANDEM_TRY(spec.vocabulary.add(byte, std::string(1, static_cast<char>(byte)), true));
  }
  spec.vocabulary.finish();
  TANDEM_ASSIGN(auto tokenizer, text::Tokenizer::build(std::move(spec), {}));
  TextFiles out;
  out.tokenizer = std::make_unique<text::Tokenizer>(std::move(tokenizer));
  return out;
}

}  // namespace tandem::app
