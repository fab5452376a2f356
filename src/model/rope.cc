#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace tandem::model {
namespace {

// 1 / theta^(2i / d), rounded to fp32 at each step as the reference does.
std::vector<float> plain_frequencies(const RopeConfig& config) {
  std::vector<float> inverse(static_cast<size_t>(config.rotary / 2));
  for (size_t i = 0; i < inverse.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(config.rotary);
    inverse[i] = 1.0f / std::pow(static_cast<float>(config.theta), exponent);
  }
  return inverse;
}

// Long waves are slowed by the factor, short ones kept, those between blended (transformers,
// _compute_llama3_parameters).
void scale_llama3(const RopeConfig& config, std::vector<float>& inverse) {
  const auto factor = static_cast<float>(config.factor);
  const auto original = static_cast<float>(config.original_max_positions);
  const auto low = static_cast<float>(config.low_freq_factor);
  const auto high = static_cast<float>(config.high_freq_factor);
  for (float& frequency : inverse) {
    const float wavelength = 2.0f * std::numbers::pi_v<float> / frequency;
    if (wavelength > original / low) {
      frequency /= factor;
    } else if (wavelength >= original / high) {
      const float smooth = (original / wavelength - low) / (high - low);
      frequency = (1.0f - smooth) * frequency / factor + smooth * frequency;
    }
  }
}

// The dimension at which a wave turns `rotations` times within the original context.
double yarn_dimension(const RopeConfig& config, double rotations) {
  return config.rotary *
         std::log(config.original_max_positions / (rotations * 2.0 * std::numbers::pi)) /
         (2.0 * std::log(config.theta));
}

void scale_yarn(const RopeConfig& config, std::vector<float>& inverse) {
  const double low = std::max(std::floor(yarn_dimension(config, config.beta_fast)), 0.0);
  double high = std::min(std::ceil(yarn_dimension(config, config.beta_slow)), config.rotary - 1.0);
  if (low == high) high += 0.001;  // as the reference, against a division by 0
  const auto factor = static_cast<float>(config.factor);
  for (size_t i = 0; i < inverse.size(); ++i) {
    const float position = static_cast<float>(i) - static_cast<float>(low);
    const float ramp = std::clamp(position / static_cast<float>(high - low), 0.0f, 1.0f);
    inverse[i] = inverse[i] / factor * ramp + inverse[i] * (1.0f - ramp);
  }
}

double yarn_cos_factor(const RopeConfig& config) {
  if (config.attention_factor) return *config.attention_factor;
  const double mscale = config.mscale.value_or(0);
  const double all = config.mscale_all_dim.value_or(0);
  if (mscale != 0 && all != 0) {
    return yarn_mscale(config.factor, mscale) / yarn_mscale(config.factor, all);
  }
  return yarn_mscale(config.factor, 1.0);
}

}  // namespace

double yarn_mscale(double factor, double mscale) {
  return factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

double mla_softmax_factor(const RopeConfig& config) {
  const double all = config.mscale_all_dim.value_or(0);
  if (config.scaling != RopeScaling::kYarn || all == 0) return 1.0;
  const double m = yarn_mscale(config.factor, all);
  return m * m;
}

RopeSpec make_rope(const RopeConfig& config) {
  RopeSpec rope;
  rope.inverse_frequency = plain_frequencies(config);
  switch (config.scaling) {
    case RopeScaling::kDefault:
      break;
    case RopeScaling::kLinear:
      for (float& frequency : rope.inverse_frequency) {
        frequency /= static_cast<float>(config.factor);
      }
      break;
    case RopeScaling::kLlama3:
      scale_llama3(config, rope.inverse_frequency);
      break;
    case RopeScaling::kYarn:
      scale_yarn(config, rope.inverse_frequency);
      rope.factor = static_cast<float>(yarn_cos_factor(config));
      break;
  }
  return rope;
}

void fill_rope_table(const RopeSpec& rope, std::span<float> cos, std::span<float> sin) {
  const size_t half = rope.inverse_frequency.size();
  TANDEM_CHECK(half > 0 && cos.size() == sin.size() && cos.size() % half == 0);
  const size_t positions = cos.size() / half;
  for (size_t position = 0; position < positions; ++position) {
    for (size_t i = 0; i < half; ++i) {
      // fp32 product, then exact-enough functions of that angle.
      const float angle = static_cast<float>(position) * rope.inverse_frequency[i];
      const size_t at = position * half + i;
      cos[at] = static_cast<float>(std::cos(static_cast<double>(angle))) * rope.factor;
      sin[at] = static_cast<float>(std::sin(static_cast<double>(angle))) * rope.factor;
    }
  }
}

}  // namespace tandem::model
