// Rotary keys of config.json in all spellings: rope_scaling with `type` or `rope_type`, or
// transformers 5's rope_parameters.
#include "model/config_reader.h"

namespace tandem::model {
namespace {

constexpr double kMaxFactor = 1e4;
constexpr double kMaxTheta = 1e12;

Expected<RopeScaling> read_kind(const ConfigReader& section) {
  const char* key = section.json().contains("rope_type") ? "rope_type" : "type";
  TANDEM_TRY(section.require_string(key, {"default", "linear", "llama3", "yarn"}));
  TANDEM_ASSIGN(const std::string kind, section.string_or(key, "default"));
  if (kind == "linear") return RopeScaling::kLinear;
  if (kind == "llama3") return RopeScaling::kLlama3;
  return kind == "yarn" ? RopeScaling::kYarn : RopeScaling::kDefault;
}

Expected<void> read_llama3(const ConfigReader& section, RopeConfig& rope) {
  TANDEM_ASSIGN(rope.low_freq_factor, section.number("low_freq_factor", 1e-3, kMaxFactor));
  TANDEM_ASSIGN(rope.high_freq_factor, section.number("high_freq_factor", 1e-3, kMaxFactor));
  if (rope.high_freq_factor <= rope.low_freq_factor) {
    return fail(ErrorCode::kInvalidArgument,
                "{}: 'high_freq_factor' must be greater than 'low_freq_factor'",
                section.file());
  }
  return {};
}

Expected<void> read_yarn(const ConfigReader& section, RopeConfig& rope) {
  TANDEM_ASSIGN(rope.beta_fast, section.number_or("beta_fast", 1e-3, kMaxFactor, 32.0));
  TANDEM_ASSIGN(rope.beta_slow, section.number_or("beta_slow", 1e-3, kMaxFactor, 1.0));
  TANDEM_ASSIGN(rope.mscale, section.number_if("mscale", 0.0, kMaxFactor));
  TANDEM_ASSIGN(rope.mscale_all_dim, section.number_if("mscale_all_dim", 0.0, kMaxFactor));
  TANDEM_ASSIGN(rope.attention_factor, section.number_if("attention_factor", 1e-6, kMaxFactor));
  TANDEM_ASSIGN(const bool truncate, section.boolean_or("truncate", true));
  if (!truncate) return section.unsupported("truncate", "false", "true");
  return {};
}

}  // namespace

Expected<RopeConfig> read_rope(const ConfigReader& reader, int32_t rotary, int64_t max_positions) {
  RopeConfig rope;
  rope.rotary = rotary;
  TANDEM_ASSIGN(rope.theta, reader.number_or("rope_theta", 1.0001, kMaxTheta, 10000.0));
  const Json& config = reader.json();
  auto it = config.find("rope_parameters");
  if (it == config.end() || it->is_null()) it = config.find("rope_scaling");
  if (it == config.end() || it->is_null()) return rope;
  const std::string where = std::string(reader.file()) + " " + it.key();
  if (!it->is_object()) {
    return fail(ErrorCode::kInvalidArgument, "{}: must be an object", where);
  }
  const ConfigReader section(*it, where);
  TANDEM_ASSIGN(rope.theta, section.number_or("rope_theta", 1.0001, kMaxTheta, rope.theta));
  TANDEM_TRY(section.require_number("partial_rotary_factor", 1.0));
  TANDEM_ASSIGN(rope.scaling, read_kind(section));
  if (rope.scaling == RopeScaling::kDefault) return rope;
  TANDEM_ASSIGN(rope.factor, section.number("factor", 1.0, kMaxFactor));
  if (rope.scaling == RopeScaling::kLinear) return rope;
  TANDEM_ASSIGN(
      const int64_t original,
      section.integer_or("original_max_position_embeddings", 1, kMaxPositions, max_positions));
  rope.original_max_positions = static_cast<double>(original);
  if (rope.scaling == RopeScaling::kLlama3) {
    TANDEM_TRY(read_llama3(section, rope));
  } else {
    TANDEM_TRY(read_yarn(section, rope));
  }
  return rope;
}

}  // namespace tandem::model
