#include "weights/dummy_source.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "quant/rows.h"

namespace tandem::weights {
namespace {

std::vector<LoadItem> one_linear(int64_t rows, int64_t k) {
  LoadItem item;
  item.parts.push_back(
      {.tensor = "w.weight", .tensor_rows = rows, .k = k, .rows = rows, .quantized = true});
  LoadItem norm;
  norm.kind = LoadKind::kVector;
  norm.parts.push_back({.tensor = "n.weight", .tensor_rows = 7, .rows = 7});
  return {item, norm};
}

// Mean square of the linear's values times k: about 1, so that y = W x keeps the size of x.
double gain(const DummySource& source, int64_t rows, int64_t k, quant::RowFormat format) {
  Scratch scratch;
  Scratch scale_scratch;
  const auto view = source.read("w.weight", scratch);
  quant::RowSource row_source{.format = format, .k = k, .data = view->data};
  if (format == quant::RowFormat::kF8Block128) {
    row_source.scales = source.read("w.weight_scale_inv", scale_scratch)->as<float>();
  }
  std::vector<float> values(static_cast<size_t>(rows * k));
  quant::dequantize_rows(row_source, 0, rows, values.data());
  double sum = 0;
  for (const float value : values) {
    EXPECT_TRUE(std::isfinite(value));
    sum += static_cast<double>(value) * value;
  }
  return sum / static_cast<double>(rows);
}

TEST(DummySource, KeepsTheSizeOfActivations) {
  const auto items = one_linear(300, 200);
  EXPECT_NEAR(gain(DummySource(items, {}), 300, 200, quant::RowFormat::kBF16), 1.0, 0.05);
  EXPECT_NEAR(
      gain(DummySource(items, {.dtype = tensor::DType::kF16}), 300, 200, quant::RowFormat::kF16),
      1.0,
      0.05);
  EXPECT_NEAR(
      gain(DummySource(items, {.fp8_blocks = true}), 300, 200, quant::RowFormat::kF8Block128),
      1.0,
      0.1);
}

TEST(DummySource, IsAFunctionOfSeedAndName) {
  const auto items = one_linear(30, 20);
  Scratch a;
  Scratch b;
  ASSERT_TRUE(DummySource(items, {}).read("w.weight", a));
  ASSERT_TRUE(DummySource(items, {}).read("w.weight", b));
  EXPECT_EQ(a, b);
  ASSERT_TRUE(DummySource(items, {.seed = 1}).read("w.weight", b));
  EXPECT_NE(a, b);
  const auto norm = DummySource(items, {}).read("n.weight", a);
  EXPECT_EQ(quant::bf16_to_float(norm->as<uint16_t>()[3]), 1.0f);
  EXPECT_FALSE(DummySource(items, {}).read("x", a));
}

}  // namespace
}  // namespace tandem::weights
