#pragma once
// config.json and generation_config.json of a checkpoint folder.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "model/model_spec.h"

namespace tandem::model {

// The one entry for every architecture. `file` names the source in messages. Errors: kUnsupported
// names an unknown architecture, or an attribute that changes the result and is not supported;
// kInvalidArgument for missing, ill-typed or absurd values. Any thread.
Expected<ModelSpec> parse_model_config(const Json& config, std::string_view file);

// DIRECTORY/config.json.
Expected<ModelSpec> read_model_config(const std::string& directory);

// "LlamaForCausalLM, …": for messages and help.
std::string supported_architectures();

// What generation_config.json suggests; a request's own values win. Absent keys stay empty.
struct GenerationDefaults {
  std::vector<int32_t> eos_ids;  // all of them end a sequence
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<double> min_p;
  std::optional<int64_t> top_k;
  std::optional<double> repetition_penalty;
  std::optional<int64_t> max_new_tokens;
};

Expected<GenerationDefaults> parse_generation_config(const Json& config, std::string_view file);

// DIRECTORY/generation_config.json; without that file, empty defaults.
Expected<GenerationDefaults> read_generation_config(const std::string& directory);

}  // namespace tandem::model
