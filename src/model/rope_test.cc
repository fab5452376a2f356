#include "model/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace tandem::model {
namespace {

// The formulas again, in double and in another form: a wave of `turns` turns in the original
// context is kept, slowed or blended.
double expected_frequency(const RopeConfig& c, int i) {
  const double plain = std::exp(-2.0 * i / c.rotary * std::log(c.theta));
  const double turns = c.original_max_positions * plain / (2 * std::numbers::pi);
  switch (c.scaling) {
    case RopeScaling::kDefault:
      return plain;
    case RopeScaling::kLinear:
      return plain / c.factor;
    case RopeScaling::kLlama3: {
      const double keep = (turns - c.low_freq_factor) / (c.high_freq_factor - c.low_freq_factor);
      const double blend = std::min(1.0, std::max(0.0, keep));
      return plain * (blend + (1 - blend) / c.factor);
    }
    case RopeScaling::kYarn: {
      // Pair index at which a wave makes `beta` turns: theta^(2i/d) = L / (2 pi beta).
      const auto pair = [&](double beta) {
        return c.rotary / 2.0 * std::log(c.original_max_positions / (2 * std::numbers::pi * beta)) /
               std::log(c.theta);
      };
      const double low = std::max(0.0, std::floor(pair(c.beta_fast)));
      const double high = std::min(c.rotary - 1.0, std::ceil(pair(c.beta_slow)));
      const double slow = std::min(1.0, std::max(0.0, (i - low) / (high - low)));
      return plain * (1 - slow) + plain / c.factor * slow;
    }
  }
  return 0;
}

void check_table(const RopeConfig& config, double factor) {
  constexpr size_t kPositions = 60'001;
  const RopeSpec rope = make_rope(config);
  const size_t half = rope.inverse_frequency.size();
  ASSERT_EQ(rope.rotary(), config.rotary);
  EXPECT_NEAR(rope.factor, factor, 1e-6);
  std::vector<float> cos(kPositions * half);
  std::vector<float> sin(cos.size());
  fill_rope_table(rope, cos, sin);
  for (size_t i = 0; i < half; ++i) {
    const double frequency = expected_frequency(config, static_cast<int>(i));
    EXPECT_NEAR(rope.inverse_frequency[i], frequency, 4e-7 * frequency) << i;
    for (size_t p = 0; p < kPositions; p += p < 5000 ? 1 : 37) {
      const double angle = static_cast<double>(p) * frequency;
      // fp32 frequency and product: a few units in the last place of the angle.
      const double tolerance = (6e-7 * angle + 2e-7) * factor;
      ASSERT_NEAR(cos[p * half + i], std::cos(angle) * factor, tolerance) << p << " " << i;
      ASSERT_NEAR(sin[p * half + i], std::sin(angle) * factor, tolerance) << p << " " << i;
    }
  }
}

TEST(Rope, TablesTo60000Positions) {
  check_table({.rotary = 64}, 1.0);
  check_table({.scaling = RopeScaling::kLinear, .theta = 1e5, .rotary = 32, .factor = 4}, 1.0);
  check_table({.scaling = RopeScaling::kLlama3,
               .theta = 5e5,
               .rotary = 128,
               .factor = 8,
               .original_max_positions = 8192},
              1.0);
  // DeepSeek V3: both mscales are 1, so cos and sin keep their size.
  RopeConfig v3{.scaling = RopeScaling::kYarn,
                .rotary = 64,
                .factor = 40,
                .original_max_positions = 4096,
                .mscale = 1.0,
                .mscale_all_dim = 1.0};
  check_table(v3, 1.0);
  // Without those keys (Llama, Qwen): 0.1 ln 4 + 1 (golden README: 1.1386).
  check_table({.scaling = RopeScaling::kYarn,
               .theta = 1e6,
               .rotary = 128,
               .factor = 4,
               .original_max_positions = 32768},
              0.1 * std::log(4.0) + 1.0);
}

// The last frequencies of DeepSeek V3 by hand: rotated 40 times slower; the first not at all.
TEST(Rope, YarnEndsByHand) {
  const RopeSpec rope = make_rope(
      {.scaling = RopeScaling::kYarn, .rotary = 64, .factor = 40, .original_max_positions = 4096});
  EXPECT_FLOAT_EQ(rope.inverse_frequency[0], 1.0f);
  EXPECT_NEAR(rope.inverse_frequency[31], std::pow(1e4, -62.0 / 64) / 40, 1e-9);
}

TEST(Rope, FactorsOfYarn) {
  EXPECT_DOUBLE_EQ(yarn_mscale(1.0, 1.0), 1.0);
  EXPECT_NEAR(yarn_mscale(40, 1.0), 1.3688879454, 1e-9);
  RopeConfig config{.scaling = RopeScaling::kYarn,
                    .rotary = 64,
                    .factor = 40,
                    .original_max_positions = 4096,
                    .mscale = 1.0,
                    .mscale_all_dim = 0.707};
  EXPECT_NEAR(make_rope(config).factor, yarn_mscale(40, 1.0) / yarn_mscale(40, 0.707), 1e-6);
  EXPECT_NEAR(mla_softmax_factor(config), std::pow(yarn_mscale(40, 0.707), 2), 1e-12);
  config.attention_factor = 1.5;
  EXPECT_FLOAT_EQ(make_rope(config).factor, 1.5f);
  config.mscale_all_dim.reset();
  EXPECT_DOUBLE_EQ(mla_softmax_factor(config), 1.0);
  config.attention_factor.reset();
  EXPECT_NEAR(make_rope(config).factor, yarn_mscale(40, 1.0), 1e-6);
  config.scaling = RopeScaling::kLinear;
  config.mscale_all_dim = 1.0;
  EXPECT_DOUBLE_EQ(mla_softmax_factor(config), 1.0);
}

}  // namespace
}  // namespace tandem::model
