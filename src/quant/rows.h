#pragma once
// C++20 (shared with .cu)
// Rows of a published weight tensor -> float32. Inputs are host memory, row-major; sizes were
// checked by whoever read the file. Any thread.

#include <array>
#include <cstdint>
#include <cstring>

#include "quant/scalar.h"

namespace tandem::quant {

enum class RowFormat : int32_t { kF32 = 0, kF16 = 1, kBF16 = 2, kF8Block128 = 3 };

// fp8 weights carry one scale for each kScaleBlock x kScaleBlock values; blocks at the right and
// lower edge are smaller (DeepSeek-V3, weight_scale_inv: real value = e4m3 x scale).
constexpr int64_t kScaleBlock = 128;

constexpr int64_t scale_columns(int64_t k) { return (k + kScaleBlock - 1) / kScaleBlock; }

constexpr int64_t bytes_of_value(RowFormat format) {
  switch (format) {
    case RowFormat::kF32:
      return 4;
    case RowFormat::kF16:
    case RowFormat::kBF16:
      return 2;
    case RowFormat::kF8Block128:
      return 1;
  }
  return 0;
}

struct RowSource {
  RowFormat format = RowFormat::kF32;
  int64_t k = 0;               // values a row
  const void* data = nullptr;  // [rows, k]; any alignment
  // kF8Block128: the whole tensor's scales [ceil(tensor rows / 128), ceil(k / 128)].
  const float* scales = nullptr;
  int64_t first_row = 0;  // row of the whole tensor at which `data` starts
};

// The scales of row `row` of the source, one for each 128 values of k.
inline const float* scale_row(const RowSource& source, int64_t row) {
  return source.scales + (source.first_row + row) / kScaleBlock * scale_columns(source.k);
}

// Every e4m3 value by its bits.
inline constexpr std::array<float, 256> kF8E4M3Values = [] {
  std::array<float, 256> values{};
  for (size_t i = 0; i < values.size(); ++i) values[i] = f8e4m3_to_float(static_cast<uint8_t>(i));
  return values;
}();

// Values of `row` without their scales: what a kernel multiplies before it applies them.
inline void decode_row(const RowSource& source, int64_t row, float* out) {
  const int64_t k = source.k;
  const char* data =
      static_cast<const char*>(source.data) + row * k * bytes_of_value(source.format);
  const auto halves = [&](auto decode) {
    for (int64_t i = 0; i < k; ++i) {
      uint16_t bits;
      std::memcpy(&bits, data + 2 * i, 2);
      out[i] = decode(bits);
    }
  };
  switch (source.format) {
    case RowFormat::kF32:
      std::memcpy(out, data, static_cast<size_t>(k) * sizeof(float));
      break;
    case RowFormat::kF16:
      halves(f16_to_float);
      break;
    case RowFormat::kBF16:
      halves(bf16_to_float);
      break;
    case RowFormat::kF8Block128:
      for (int64_t i = 0; i < k; ++i) out[i] = kF8E4M3Values[static_cast<uint8_t>(data[i])];
      break;
  }
}

// Rows [row, row + rows) -> out [rows, k], scales applied in float32.
inline void dequantize_rows(const RowSource& source, int64_t row, int64_t rows, float* out) {
  for (int64_t r = 0; r < rows; ++r, out += source.k) {
    decode_row(source, row + r, out);
    if (source.format != RowFormat::kF8Block128) continue;
    const float* scales = scale_row(source, row + r);
    for (int64_t i = 0; i < source.k; ++i) out[i] *= scales[i / kScaleBlock];
  }
}

}  // namespace tandem::quant
