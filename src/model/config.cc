#include "model/config.h"

#include "base/log.h"
#include "model/architectures.h"
#include "system/files.h"

namespace tandem::model {
namespace {

constexpr size_t kMaxConfigBytes = 16u << 20;

struct Architecture {
  std::string_view name;
  std::string_view model_type;
  Expected<ModelSpec> (*read)(const ConfigReader&);
};

constexpr Architecture kArchitectures[] = {
    {"DeepseekV2ForCausalLM", "deepseek_v2", read_deepseek_v2},
    {"DeepseekV3ForCausalLM", "deepseek_v3", read_deepseek_v3},
    {"LlamaForCausalLM", "llama", read_llama},
};

Expected<Json> read_json(const std::string& path) {
  TANDEM_ASSIGN(const std::string text, system::read_text_file(path, kMaxConfigBytes));
  auto json = parse_json(text);
  if (!json) return fail(ErrorCode::kInvalidArgument, "{}: {}", path, json.error().message);
  return json;
}

Expected<void> check_object(const Json& config, std::string_view file) {
  if (config.is_object()) return {};
  return fail(ErrorCode::kInvalidArgument, "{}: must hold a JSON object", file);
}

// The first of `architectures`.
Expected<std::string> architecture_of(const Json& config, std::string_view file) {
  const auto it = config.find("architectures");
  if (it == config.end() || !it->is_array() || it->empty() || !(*it)[0].is_string()) {
    return fail(ErrorCode::kInvalidArgument,
                "{}: 'architectures' must be a list with the model's class",
                file);
  }
  return (*it)[0].get<std::string>();
}

// A folder without config.json may hold the other published form of weights.
Expected<void> refuse_gguf(const std::string& directory) {
  const auto names = system::list_directory(directory);
  if (!names) return {};  // the missing config.json says enough
  for (const std::string& name : *names) {
    if (!name.ends_with(".gguf")) continue;
    return fail(
        ErrorCode::kUnsupported,
        "'{}/{}' is a GGUF file, which is not supported; accepted: a folder with config.json "
        "and safetensors weights",
        directory,
        log_safe(name));
  }
  return {};
}

}  // namespace

std::string supported_architectures() {
  std::string list;
  for (const Architecture& entry : kArchitectures) {
    if (!list.empty()) list += ", ";
    list += entry.name;
  }
  return list;
}

Expected<ModelSpec> parse_model_config(const Json& config, std::string_view file) {
  TANDEM_TRY(check_object(config, file));
  TANDEM_ASSIGN(const std::string name, architecture_of(config, file));
  for (const Architecture& entry : kArchitectures) {
    if (entry.name != name) continue;
    const ConfigReader reader(config, file);
    // A DeepSeek V3.2 that calls itself V3 would run without its indexer.
    TANDEM_TRY(reader.require_string("model_type", {entry.model_type}));
    return entry.read(reader);
  }
  return fail(ErrorCode::kUnsupported,
              "{}: architecture '{}' is not supported; accepted: {}",
              file,
              log_safe(name, 64),
              supported_architectures());
}

Expected<ModelSpec> read_model_config(const std::string& directory) {
  const std::string path = directory + "/config.json";
  if (!system::path_exists(path)) TANDEM_TRY(refuse_gguf(directory));
  TANDEM_ASSIGN(const Json config, read_json(path));
  return parse_model_config(config, path);
}

Expected<GenerationDefaults> parse_generation_config(const Json& config, std::string_view file) {
  TANDEM_TRY(check_object(config, file));
  const ConfigReader reader(config, file);
  GenerationDefaults defaults;
  TANDEM_ASSIGN(defaults.eos_ids, read_eos_ids(config, file));
  TANDEM_ASSIGN(defaults.temperature, reader.number_if("temperature", 0.0, 1e6));
  TANDEM_ASSIGN(defaults.top_p, reader.number_if("top_p", 0.0, 1.0));
  TANDEM_ASSIGN(defaults.min_p, reader.number_if("min_p", 0.0, 1.0));
  TANDEM_ASSIGN(defaults.repetition_penalty, reader.number_if("repetition_penalty", 1e-6, 1e6));
  TANDEM_ASSIGN(defaults.top_k, json_int(config, "top_k", -1, kMaxVocabulary, file));
  TANDEM_ASSIGN(defaults.max_new_tokens, json_int(config, "max_new_tokens", 1, INT32_MAX, file));
  return defaults;
}

Expected<GenerationDefaults> read_generation_config(const std::string& directory) {
  const std::string path = directory + "/generation_config.json";
  if (!system::path_exists(path)) return GenerationDefaults{};
  TANDEM_ASSIGN(const Json config, read_json(path));
  return parse_generation_config(config, path);
}

}  // namespace tandem::model
