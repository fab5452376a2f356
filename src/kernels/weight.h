#pragma once
// C++20 (shared with .cu)
// Weights as files publish them (WeightSource) and as a device multiplies with them (PackedWeight).
// quant/ knows the published formats; the packed layouts and pack() belong to the devices.

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace tandem::kernels {

enum class WeightFormat : int32_t {
  kF32 = 0,
  kF16 = 1,
  kBF16 = 2,
  kF8Block128 = 3,  // e4m3, one fp32 scale for each 128 x 128 block; real value = e4m3 x scale
};

const char* to_string(WeightFormat format);

// Rows of one published tensor, row-major [rows, k], in host memory that stays mapped during
// pack().
struct WeightSource {
  WeightFormat format = WeightFormat::kF32;
  int64_t rows = 0;
  int64_t k = 0;
  const void* data = nullptr;
  // kF8Block128: the tensor's scales [ceil(tensor rows / 128), ceil(k / 128)], row-major; else
  // null.
  const float* scales = nullptr;
  // Row of the whole tensor at which `data` starts (a rank's part): scale row = (first_row + r) /
  // 128.
  int64_t first_row = 0;
};

// How the parts of one linear lie beside each other.
enum class Pairing : int32_t {
  kConcatenate = 0,  // output columns in the order of the parts: q_a | kv_a, q | k | v
  kGateUp = 1,       // two parts of equal rows; for Epilogue::kSiluMul
};

// Products are summed in partitions of this many k, each from 0 in order of k by fused
// multiply-add, and the partition sums added in order to a total that starts at 0: total += sum, or
// total = fma(sum, scale, total) where the block has a scale. The fixed K partition of "same
// answer".
constexpr int32_t kKPartition = 128;

constexpr int kMaxWeightParts = 4;

// One part of a packed linear: output columns [first_column, first_column + columns).
struct PackedPart {
  WeightFormat format = WeightFormat::kF32;
  int32_t layout = 0;  // the device's own number of the layout of `data`
  int64_t first_column = 0;
  int64_t columns = 0;
  int32_t group = 0;  // values of k that share a scale; 0 = none
  const void* data = nullptr;
  const void* scales = nullptr;
  const void* zeros = nullptr;           // formats with zero points
  const int32_t* permutation = nullptr;  // act-order: input column of each k
};

// y[t, n] = sum over k of x[t, k] * w[n, k]. A value that borrows device memory; whoever called
// pack() owns it.
struct PackedWeight {
  int64_t n = 0;  // sum of the parts' columns
  int64_t k = 0;
  Pairing pairing = Pairing::kConcatenate;
  int32_t part_count = 0;
  PackedPart parts[kMaxWeightParts] = {};
};

// All routed experts of a layer. Arrays of `count` in host memory, owned by the caller.
struct PackedExperts {
  int32_t count = 0;
  const PackedWeight* gate_up = nullptr;  // Pairing::kGateUp, [2 * intermediate, hidden]
  const PackedWeight* down = nullptr;     // [hidden, intermediate]
};

// kv_b_proj of one MLA layer, dequantized and cut into heads: for head h, rows [nope] of W_UK[h]
// and [value] of W_UV[h], each `latent` wide.
struct MlaShape {
  int32_t heads = 0;
  int32_t nope = 0;  // width of the unrotated query and key
  int32_t rope = 0;  // width of the rotated query and key
  int32_t value = 0;
  int32_t latent = 0;  // kv_lora_rank
};
struct MlaWeights {
  MlaShape shape;
  tensor::DType dtype = tensor::DType::kF32;  // storage: kF32 or kBF16
  int32_t layout = 0;
  const void* uk = nullptr;           // absorbs queries: q_nope [nope] -> [latent]
  const void* uv = nullptr;           // [latent] -> [value]
  const void* uk_expanded = nullptr;  // [latent] -> [nope], for the expanded form; may be null
};

}  // namespace tandem::kernels
