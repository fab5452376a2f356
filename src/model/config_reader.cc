#include "model/config_reader.h"

#include <fmt/format.h>

#include <cmath>

#include "base/log.h"

namespace tandem::model {
namespace {

std::unexpected<Error> missing(std::string_view file, std::string_view key) {
  return fail(ErrorCode::kInvalidArgument, "{}: '{}' is missing", file, key);
}

// A value for a message: short, one line.
std::string show(const Json& value) { return log_safe(dump_json(value), 64); }

const Json* find(const Json& object, std::string_view key) {
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

}  // namespace

Expected<int64_t> ConfigReader::integer(std::string_view key, int64_t low, int64_t high) const {
  TANDEM_ASSIGN(const auto value, json_int(config_, key, low, high, file_));
  if (!value) return missing(file_, key);
  return *value;
}

Expected<int64_t> ConfigReader::integer_or(std::string_view key,
                                           int64_t low,
                                           int64_t high,
                                           int64_t fallback) const {
  TANDEM_ASSIGN(const auto value, json_int(config_, key, low, high, file_));
  return value.value_or(fallback);
}

Expected<std::optional<double>> ConfigReader::number_if(std::string_view key,
                                                        double low,
                                                        double high) const {
  TANDEM_ASSIGN(const auto value, json_number(config_, key, file_));
  if (value && !(*value >= low && *value <= high)) {
    return fail(ErrorCode::kInvalidArgument,
                "{}: '{}' must be between {} and {}, found {}",
                file_,
                key,
                low,
                high,
                *value);
  }
  return value;
}

Expected<double> ConfigReader::number(std::string_view key, double low, double high) const {
  TANDEM_ASSIGN(const auto value, number_if(key, low, high));
  if (!value) return missing(file_, key);
  return *value;
}

Expected<double> ConfigReader::number_or(std::string_view key,
                                         double low,
                                         double high,
                                         double fallback) const {
  TANDEM_ASSIGN(const auto value, number_if(key, low, high));
  return value.value_or(fallback);
}

Expected<bool> ConfigReader::boolean_or(std::string_view key, bool fallback) const {
  TANDEM_ASSIGN(const auto value, json_bool(config_, key, file_));
  return value.value_or(fallback);
}

Expected<std::string> ConfigReader::string_or(std::string_view key,
                                              std::string_view fallback) const {
  TANDEM_ASSIGN(const auto value, json_string(config_, key, file_));
  return value.value_or(std::string(fallback));
}

std::unexpected<Error> ConfigReader::unsupported(std::string_view key,
                                                 std::string_view found,
                                                 std::string_view accepted) const {
  return fail(ErrorCode::kUnsupported,
              "{}: '{}' is {}, which is not supported; accepted: {}",
              file_,
              key,
              log_safe(found, 64),
              accepted);
}

Expected<void> ConfigReader::require_false(std::string_view key) const {
  TANDEM_ASSIGN(const bool value, boolean_or(key, false));
  if (value) return unsupported(key, "true", "false");
  return {};
}

Expected<void> ConfigReader::require_integer(std::string_view key, int64_t accepted) const {
  const Json* value = find(config_, key);
  if (!value || (value->is_number() && value->get<double>() == static_cast<double>(accepted))) {
    return {};
  }
  return unsupported(key, show(*value), std::to_string(accepted));
}

Expected<void> ConfigReader::require_number(std::string_view key, double accepted) const {
  const Json* value = find(config_, key);
  if (!value || (value->is_number() && value->get<double>() == accepted)) return {};
  return unsupported(key, show(*value), fmt::format("{}", accepted));
}

Expected<void> ConfigReader::require_string(
    std::string_view key, std::initializer_list<std::string_view> accepted) const {
  const Json* value = find(config_, key);
  if (!value) return {};
  std::string list;
  for (const std::string_view word : accepted) {
    if (value->is_string() && value->get_ref<const std::string&>() == word) return {};
    list += fmt::format("{}\"{}\"", list.empty() ? "" : ", ", word);
  }
  return unsupported(key, show(*value), list);
}

Expected<Quantization> read_quantization(const ConfigReader& reader) {
  const Json* section = find(reader.json(), "quantization_config");
  if (!section) return Quantization::kNone;
  if (!section->is_object()) {
    return reader.unsupported("quantization_config", show(*section), "an object");
  }
  const std::string where = std::string(reader.file()) + " quantization_config";
  const ConfigReader inner(*section, where);
  if (!find(*section, "quant_method")) return missing(where, "quant_method");
  TANDEM_TRY(inner.require_string("quant_method", {"fp8"}));
  TANDEM_TRY(inner.require_string("fmt", {"e4m3"}));
  TANDEM_TRY(inner.require_string("activation_scheme", {"dynamic"}));
  TANDEM_TRY(inner.require_string("scale_fmt", {"ue8m0", "float"}));
  const Json* block = find(*section, "weight_block_size");
  if (!block || *block != Json::array({128, 128})) {
    return inner.unsupported("weight_block_size", block ? show(*block) : "missing", "[128, 128]");
  }
  return Quantization::kFp8Block128;
}

Expected<std::vector<int32_t>> read_eos_ids(const Json& config, std::string_view file) {
  constexpr size_t kMaxEosIds = 64;
  std::vector<int32_t> ids;
  const Json* value = find(config, "eos_token_id");
  if (!value) return ids;
  const Json list = value->is_array() ? *value : Json::array({*value});
  for (const Json& id : list) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= kMaxVocabulary ||
        ids.size() == kMaxEosIds) {
      return fail(ErrorCode::kInvalidArgument,
                  "{}: 'eos_token_id' must be a token id or a list of at most {}, found {}",
                  file,
                  kMaxEosIds,
                  show(*value));
    }
    ids.push_back(static_cast<int32_t>(id.get<uint64_t>()));
  }
  return ids;
}

namespace {

Expected<tensor::DType> read_file_dtype(const ConfigReader& reader) {
  const char* key = find(reader.json(), "dtype") ? "dtype" : "torch_dtype";
  TANDEM_TRY(reader.require_string(key, {"bfloat16", "float16", "float32"}));
  TANDEM_ASSIGN(const std::string name, reader.string_or(key, "bfloat16"));
  if (name == "float32") return tensor::DType::kF32;
  return name == "float16" ? tensor::DType::kF16 : tensor::DType::kBF16;
}

}  // namespace

Expected<ModelSpec> read_common(const ConfigReader& reader) {
  ModelSpec spec;
  TANDEM_ASSIGN(spec.hidden, reader.integer("hidden_size", 1, kMaxWidth));
  TANDEM_ASSIGN(spec.vocabulary, reader.integer("vocab_size", 1, kMaxVocabulary));
  TANDEM_ASSIGN(spec.max_positions, reader.integer("max_position_embeddings", 1, kMaxPositions));
  TANDEM_ASSIGN(const double eps, reader.number_or("rms_norm_eps", 1e-12, 1.0, 1e-6));
  spec.norm_eps = static_cast<float>(eps);
  TANDEM_ASSIGN(spec.tied, reader.boolean_or("tie_word_embeddings", false));
  TANDEM_TRY(reader.require_string("hidden_act", {"silu"}));
  TANDEM_TRY(reader.require_false("mlp_bias"));
  TANDEM_TRY(reader.require_number("partial_rotary_factor", 1.0));
  TANDEM_ASSIGN(spec.quantization, read_quantization(reader));
  TANDEM_ASSIGN(spec.file_dtype, read_file_dtype(reader));
  TANDEM_ASSIGN(spec.eos_ids, read_eos_ids(reader.json(), reader.file()));
  TANDEM_ASSIGN(const auto bos,
                json_int(reader.json(), "bos_token_id", 0, kMaxVocabulary - 1, reader.file()));
  if (bos) spec.bos_id = static_cast<int32_t>(*bos);
  spec.names = common_names();
  return spec;
}

std::map<Role, std::string> common_names() {
  const std::string layer = "model.layers.{layer}.";
  return {
      {Role::kEmbed, "model.embed_tokens"},
      {Role::kFinalNorm, "model.norm"},
      {Role::kHead, "lm_head"},
      {Role::kAttentionNorm, layer + "input_layernorm"},
      {Role::kMlpNorm, layer + "post_attention_layernorm"},
      {Role::kQ, layer + "self_attn.q_proj"},
      {Role::kK, layer + "self_attn.k_proj"},
      {Role::kV, layer + "self_attn.v_proj"},
      {Role::kO, layer + "self_attn.o_proj"},
      {Role::kGate, layer + "mlp.gate_proj"},
      {Role::kUp, layer + "mlp.up_proj"},
      {Role::kDown, layer + "mlp.down_proj"},
  };
}

}  // namespace tandem::model
