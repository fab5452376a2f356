#pragma once
// Reading and writing single values of activations and caches.

#include <cstddef>
#include <cstdint>

#include "kernels/operators.h"
#include "quant/scalar.h"

namespace tandem::kernels {

inline float load_value(DType type, const void* data, int64_t index) {
  switch (type) {
    case DType::kBF16:
      return quant::bf16_to_float(static_cast<const uint16_t*>(data)[index]);
    case DType::kF16:
      return quant::f16_to_float(static_cast<const uint16_t*>(data)[index]);
    default:
      return static_cast<const float*>(data)[index];
  }
}

// kF32 or kBF16: where a value is rounded.
inline void store_value(DType type, void* data, int64_t index, float value) {
  if (type == DType::kBF16) {
    static_cast<uint16_t*>(data)[index] = quant::float_to_bf16(value);
  } else {
    static_cast<float*>(data)[index] = value;
  }
}

inline float round_to(DType type, float value) {
  return type == DType::kBF16 ? quant::round_to_bf16(value) : value;
}

inline float load(const RowsView& view, int64_t row, int64_t column) {
  return load_value(view.dtype, view.data, row * view.stride + column);
}

inline void store(const RowsView& view, int64_t row, int64_t column, float value) {
  store_value(view.dtype, view.data, row * view.stride + column, value);
}

inline void load_row(const RowsView& view, int64_t row, float* out) {
  for (int64_t i = 0; i < view.columns; ++i) out[i] = load(view, row, i);
}

// Row `token` of block `block`; `row_in_block` counts rows of kBlockTokens tokens each:
// 0 for MLA, [K|V][kv head] for GQA.
inline void* cache_row(const KvLayer& cache, int64_t block, int64_t token, int64_t row_in_block) {
  return static_cast<char*>(cache.base) + block * cache.block_stride_bytes +
         (row_in_block * kBlockTokens + token) * cache.row_bytes;
}

}  // namespace tandem::kernels
