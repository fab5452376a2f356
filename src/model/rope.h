#pragma once
// Rotary position tables: pure functions of a config's numbers. Facts: Hugging Face transformers'
// modeling_rope_utils (frequencies in fp32) and the YaRN paper (arXiv:2309.00071).

#include <cstdint>
#include <optional>
#include <span>

#include "base/error.h"
#include "model/model_spec.h"

namespace tandem::model {

enum class RopeScaling { kDefault, kLinear, kLlama3, kYarn };

struct RopeConfig {
  RopeScaling scaling = RopeScaling::kDefault;
  double theta = 10000.0;
  int32_t rotary = 0;  // rotated width, even
  double factor = 1.0;
  double original_max_positions = 0;       // kLlama3, kYarn
  double low_freq_factor = 1.0;            // kLlama3
  double high_freq_factor = 4.0;           // kLlama3
  double beta_fast = 32.0;                 // kYarn
  double beta_slow = 1.0;                  // kYarn
  std::optional<double> mscale;            // kYarn
  std::optional<double> mscale_all_dim;    // kYarn
  std::optional<double> attention_factor;  // kYarn: replaces the quotient of the two above
};

// Frequencies with the scaling applied, and the factor on cos and sin. `interleaved` is the
// caller's.
RopeSpec make_rope(const RopeConfig& config);

// YaRN's 0.1 m ln(factor) + 1; 1 for factor <= 1.
double yarn_mscale(double factor, double mscale);

// What MLA models multiply their softmax scale with: mscale(factor, mscale_all_dim)^2 under YaRN if
// that key is there, else 1.
double mla_softmax_factor(const RopeConfig& config);

// Rows [0, positions) of the tables, row-major [positions, rotary / 2]: cos and sin of
// position * inverse_frequency times the factor. The product is rounded to fp32 first, as in the
// reference; both spans hold positions * rotary / 2.
void fill_rope_table(const RopeSpec& rope, std::span<float> cos, std::span<float> sin);

}  // namespace tandem::model
