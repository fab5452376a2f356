#pragma once
// Typed, range-checked look-ups in a config.json: every error names the file, the key, what was
// found and what is accepted. Used by the functions of the architecture families.

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "model/model_spec.h"
#include "model/rope.h"

namespace tandem::model {

// Bounds on sizes that a config may claim: above every published model, small enough that no
// product of a few of them overflows 64 bits.
constexpr int64_t kMaxLayers = 1024;
constexpr int64_t kMaxHeads = 4096;
constexpr int64_t kMaxWidth = int64_t{1} << 20;
constexpr int64_t kMaxVocabulary = int64_t{1} << 24;
constexpr int64_t kMaxPositions = int64_t{1} << 24;
constexpr int64_t kMaxExperts = 4096;

class ConfigReader {
 public:
  // `config` must be an object and, like `file`, outlive the reader.
  ConfigReader(const Json& config, std::string_view file) : config_(config), file_(file) {}

  const Json& json() const { return config_; }
  std::string_view file() const { return file_; }

  Expected<int64_t> integer(std::string_view key, int64_t low, int64_t high) const;  // required
  Expected<int64_t> integer_or(std::string_view key, int64_t low, int64_t high, int64_t) const;
  // Finite, in [low, high].
  Expected<double> number(std::string_view key, double low, double high) const;  // required
  Expected<double> number_or(std::string_view key, double low, double high, double) const;
  Expected<std::optional<double>> number_if(std::string_view key, double low, double high) const;
  Expected<bool> boolean_or(std::string_view key, bool fallback) const;
  Expected<std::string> string_or(std::string_view key, std::string_view fallback) const;

  // The key must be absent, null or this: anything else would change the result.
  Expected<void> require_false(std::string_view key) const;
  Expected<void> require_integer(std::string_view key, int64_t accepted) const;
  Expected<void> require_number(std::string_view key, double accepted) const;
  Expected<void> require_string(std::string_view key,
                                std::initializer_list<std::string_view> accepted) const;

  std::unexpected<Error> unsupported(std::string_view key,
                                     std::string_view found,
                                     std::string_view accepted) const;

 private:
  const Json& config_;
  std::string_view file_;
};

// rope_theta and rope_scaling (or rope_parameters, as transformers 5 writes them). `rotary` is the
// rotated width; `max_positions` stands in for a missing original_max_position_embeddings.
Expected<RopeConfig> read_rope(const ConfigReader& reader, int32_t rotary, int64_t max_positions);

// quantization_config -> spec.quantization.
Expected<Quantization> read_quantization(const ConfigReader& reader);

// What every family has: sizes, norm, types, end and begin tokens.
Expected<ModelSpec> read_common(const ConfigReader& reader);

// Published names that Llama, Qwen and DeepSeek share.
std::map<Role, std::string> common_names();

// eos_token_id: nothing, one id or a list of at most 64.
Expected<std::vector<int32_t>> read_eos_ids(const Json& config, std::string_view file);

}  // namespace tandem::model
