#pragma once
// Weights as the reference device keeps them, and the product with them.

#include <cstdint>
#include <vector>

#include "kernels/weight.h"
#include "quant/rows.h"

namespace tandem::kernels {

static_assert(static_cast<int32_t>(quant::RowFormat::kF8Block128) ==
                  static_cast<int32_t>(WeightFormat::kF8Block128) &&
              quant::kScaleBlock == kKPartition);

inline quant::RowFormat row_format(WeightFormat format) {
  return static_cast<quant::RowFormat>(format);
}

inline quant::RowSource row_source(const WeightSource& source) {
  return {row_format(source.format), source.k, source.data, source.scales, source.first_row};
}

// y[t, n] = x[t, :] . w[n, :] in the fixed order, float32. x [tokens, k], y [tokens, n]: gate, then
// up for Pairing::kGateUp. `row`: k floats of scratch.
void multiply(const PackedWeight& weight, const float* x, int64_t tokens, float* row, float* y);

}  // namespace tandem::kernels
