#include "quant/rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

namespace tandem::quant {
namespace {

TEST(RowsTest, DecodesPlainFormats) {
  const std::vector<float> f32 = {1.5f, -2.0f, 0.1f, 4.0f};
  std::vector<uint16_t> f16;
  std::vector<uint16_t> bf16;
  for (const float v : f32) {
    f16.push_back(float_to_f16(v));
    bf16.push_back(float_to_bf16(v));
  }
  float out[2] = {};
  dequantize_rows({RowFormat::kF32, 2, f32.data()}, 1, 1, out);
  EXPECT_EQ(out[0], 0.1f);
  EXPECT_EQ(out[1], 4.0f);
  dequantize_rows({RowFormat::kF16, 2, f16.data()}, 1, 1, out);
  EXPECT_EQ(out[0], f16_to_float(f16[2]));
  dequantize_rows({RowFormat::kBF16, 2, bf16.data()}, 1, 1, out);
  EXPECT_EQ(out[0], bf16_to_float(bf16[2]));
  EXPECT_NE(out[0], 0.1f);
}

// 300 x 200 tensor: 3 x 2 scales, the last blocks partial; a slice that starts inside a block.
TEST(RowsTest, BlockScalesFollowTheWholeTensor) {
  constexpr int64_t kRows = 300;
  constexpr int64_t kK = 200;
  std::vector<uint8_t> data(kRows * kK);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint8_t>(i * 37 % 0x7f);
  const std::vector<float> scales = {1.0f, 2.0f, 0.5f, 4.0f, 8.0f, 0.25f};
  constexpr int64_t kFirst = 100;
  const RowSource slice{
      RowFormat::kF8Block128, kK, data.data() + kFirst * kK, scales.data(), kFirst};
  std::vector<float> out((kRows - kFirst) * kK);
  dequantize_rows(slice, 0, kRows - kFirst, out.data());
  for (int64_t r = kFirst; r < kRows; ++r) {
    for (int64_t i = 0; i < kK; ++i) {
      const float expected = f8e4m3_to_float(data[r * kK + i]) * scales[(r / 128) * 2 + i / 128];
      ASSERT_EQ(out[(r - kFirst) * kK + i], expected) << r << " " << i;
    }
  }
  // A part of the slice is the same as the same rows of the whole.
  std::vector<float> part(3 * kK);
  dequantize_rows(slice, 27, 3, part.data());
  for (int64_t i = 0; i < 3 * kK; ++i) ASSERT_EQ(part[i], out[27 * kK + i]);
}

}  // namespace
}  // namespace tandem::quant
