#include "kernels/reference/math.h"
#include "kernels/reference/packed_rows.h"
#include "kernels/reference/reference_device.h"
#include "kernels/reference/values.h"

namespace tandem::kernels {

void multiply(const PackedWeight& weight, const float* x, int64_t tokens, float* row, float* y) {
  const int64_t scale_columns = quant::scale_columns(weight.k);
  for (int32_t p = 0; p < weight.part_count; ++p) {
    const PackedPart& part = weight.parts[p];
    const quant::RowSource source{row_format(part.format), weight.k, part.data};
    for (int64_t c = 0; c < part.columns; ++c) {
      quant::decode_row(source, c, row);
      const float* scales =
          part.scales ? static_cast<const float*>(part.scales) + c * scale_columns : nullptr;
      for (int64_t t = 0; t < tokens; ++t) {
        y[t * weight.n + part.first_column + c] =
            dot_in_partitions(x + t * weight.k, row, weight.k, scales);
      }
    }
  }
}

void ReferenceOperators::linear(RunContext& context, const LinearArgs& args) {
  const PackedWeight& weight = *args.weight;
  auto* x = context.scratch<float>(static_cast<size_t>(args.tokens * weight.k));
  auto* y = context.scratch<float>(static_cast<size_t>(args.tokens * weight.n));
  auto* row = context.scratch<float>(static_cast<size_t>(weight.k));
  for (int64_t t = 0; t < args.tokens; ++t) load_row(args.x, t, x + t * weight.k);
  multiply(weight, x, args.tokens, row, y);

  for (int64_t t = 0; t < args.tokens; ++t) {
    float* result = y + t * weight.n;
    if (args.bias) {
      for (int64_t i = 0; i < weight.n; ++i) result[i] += args.bias[i];
    }
    for (int64_t i = 0; i < args.out.columns; ++i) {
      float value = result[i];
      if (args.epilogue == Epilogue::kSiluMul) value = silu(value) * result[weight.n / 2 + i];
      if (args.epilogue == Epilogue::kAdd) value = load(args.out, t, i) + value;
      store(args.out, t, i, value);
    }
  }
}

}  // namespace tandem::kernels
