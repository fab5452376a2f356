#include "quant/scalar.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

namespace tandem::quant {
namespace {

// The value that sign, exponent and mantissa mean, straight from the definition.
double value_of(int bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const double fraction = std::ldexp(mantissa, -mantissa_bits);
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
  return (bits >> (exponent_bits + mantissa_bits)) & 1 ? -magnitude : magnitude;
}

// Nearest of the ascending non-negative `values` (index = code), ties to the even code.
int nearest_code(const std::vector<double>& values, double x) {
  int best = 0;
  for (int i = 1; i < static_cast<int>(values.size()); ++i) {
    const double a = std::fabs(values[best] - x);
    const double b = std::fabs(values[i] - x);
    if (b < a || (b == a && i % 2 == 0)) best = i;
  }
  return best;
}

TEST(ScalarTest, F8E4M3DecodesEveryCode) {
  for (int code = 0; code < 256; ++code) {
    const float value = f8e4m3_to_float(static_cast<uint8_t>(code));
    if ((code & 0x7f) == 0x7f) {
      EXPECT_TRUE(std::isnan(value)) << code;
    } else {
      EXPECT_EQ(value, value_of(code, 4, 3)) << code;
      EXPECT_EQ(std::signbit(value), code >= 128) << code;
      EXPECT_EQ(float_to_f8e4m3(value), code);
    }
  }
  EXPECT_EQ(f8e4m3_to_float(0x7e), 448.0f);
  EXPECT_EQ(f8e4m3_to_float(0x01), 0x1p-9f);
}

TEST(ScalarTest, F8E5M2DecodesEveryCode) {
  for (int code = 0; code < 256; ++code) {
    const float value = f8e5m2_to_float(static_cast<uint8_t>(code));
    const int magnitude = code & 0x7f;
    if (magnitude > 0x7c) {
      EXPECT_TRUE(std::isnan(value)) << code;
    } else if (magnitude == 0x7c) {
      EXPECT_TRUE(std::isinf(value)) << code;
    } else {
      EXPECT_EQ(value, value_of(code, 5, 2)) << code;
      EXPECT_EQ(float_to_f8e5m2(value), code);
    }
  }
}

TEST(ScalarTest, F16RoundTripsEveryCode) {
  for (int code = 0; code < 65536; ++code) {
    const auto bits = static_cast<uint16_t>(code);
    const float value = f16_to_float(bits);
    if ((code & 0x7fff) > 0x7c00) {
      ASSERT_TRUE(std::isnan(value)) << code;
      ASSERT_TRUE(std::isnan(f16_to_float(float_to_f16(value)))) << code;
      continue;
    }
    if ((code & 0x7fff) != 0x7c00) {
      ASSERT_EQ(value, value_of(code, 5, 10)) << code;
    } else {
      ASSERT_TRUE(std::isinf(value));
    }
    ASSERT_EQ(float_to_f16(value), bits) << code;
  }
}

TEST(ScalarTest, Bf16RoundTripsEveryCode) {
  for (int code = 0; code < 65536; ++code) {
    const auto bits = static_cast<uint16_t>(code);
    const float value = bf16_to_float(bits);
    if ((code & 0x7fff) > 0x7f80) {
      ASSERT_TRUE(std::isnan(value)) << code;
      ASSERT_TRUE(std::isnan(round_to_bf16(value))) << code;
    } else {
      ASSERT_EQ(float_to_bf16(value), bits) << code;
    }
  }
}

// Every value halfway between two neighbours goes to the even code; its float neighbours do not.
void check_halfway(int last_code,
                   const std::function<float(int)>& decode,
                   const std::function<int(float)>& encode) {
  for (int code = 0; code < last_code; ++code) {
    const double low = decode(code);
    const double high = decode(code + 1);
    const auto middle = static_cast<float>((low + high) / 2);
    ASSERT_EQ(middle, (low + high) / 2);
    const int even = code % 2 == 0 ? code : code + 1;
    const float inf = std::numeric_limits<float>::infinity();
    ASSERT_EQ(encode(middle), even) << code;
    ASSERT_EQ(encode(std::nextafter(middle, 0.0f)), code) << code;
    ASSERT_EQ(encode(std::nextafter(middle, inf)), code + 1) << code;
  }
}

TEST(ScalarTest, RoundsToNearestEven) {
  check_halfway(
      0x7e,
      [](int c) { return f8e4m3_to_float(static_cast<uint8_t>(c)); },
      [](float v) { return static_cast<int>(float_to_f8e4m3(v)); });
  check_halfway(
      0x7b,
      [](int c) { return f8e5m2_to_float(static_cast<uint8_t>(c)); },
      [](float v) { return static_cast<int>(float_to_f8e5m2(v)); });
  check_halfway(
      0x7bff,
      [](int c) { return f16_to_float(static_cast<uint16_t>(c)); },
      [](float v) { return static_cast<int>(float_to_f16(v)); });
  check_halfway(
      0x7f7f,
      [](int c) { return bf16_to_float(static_cast<uint16_t>(c)); },
      [](float v) { return static_cast<int>(float_to_bf16(v)); });
}

TEST(ScalarTest, RandomValuesGoToTheNearestE4M3) {
  std::vector<double> values;
  for (int code = 0; code < 0x7f; ++code) values.push_back(value_of(code, 4, 3));
  std::mt19937 random(1);
  std::uniform_real_distribution<float> exponent(-12.0f, 9.5f);
  for (int i = 0; i < 20000; ++i) {
    const float x = std::exp2(exponent(random));
    ASSERT_EQ(float_to_f8e4m3(x), nearest_code(values, x)) << x;
    ASSERT_EQ(float_to_f8e4m3(-x), nearest_code(values, x) | 0x80) << x;
  }
}

TEST(ScalarTest, Extremes) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(float_to_f8e4m3(inf), 0x7e);
  EXPECT_EQ(float_to_f8e4m3(-1e30f), 0xfe);
  EXPECT_EQ(float_to_f8e4m3(nan) & 0x7f, 0x7f);
  EXPECT_EQ(float_to_f8e4m3(463.9f), 0x7e);
  EXPECT_EQ(float_to_f8e5m2(inf), 0x7c);
  EXPECT_EQ(float_to_f8e5m2(61440.0f), 0x7c);
  EXPECT_EQ(float_to_f8e5m2(61439.0f), 0x7b);
  EXPECT_TRUE(std::isnan(f8e5m2_to_float(float_to_f8e5m2(nan))));
  EXPECT_EQ(float_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(float_to_f16(65519.0f), 0x7bff);
  EXPECT_EQ(float_to_f16(-inf), 0xfc00);
  EXPECT_EQ(float_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(float_to_bf16(-0.0f), 0x8000);
  EXPECT_EQ(float_to_f16(std::numeric_limits<float>::denorm_min()), 0);
}

static_assert(round_to_bf16(1.00390625f) == 1.0f);  // 1 + 2^-8: halfway, to even

}  // namespace
}  // namespace tandem::quant
