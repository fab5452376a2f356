#pragma once
// What is to be loaded, as data: which rows of which published tensors become which packed weight
// on which device. The planner (model/) writes it, the loader executes it.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/weight.h"
#include "tensor/tensor_view.h"
#include "weights/placement.h"

namespace tandem::weights {

// Rows [first_row, first_row + rows) of a published tensor.
struct LoadPart {
  std::string tensor;       // published name, with ".weight"
  int64_t tensor_rows = 0;  // of the whole tensor, as the model wants it
  int64_t k = 0;            // its columns; 0: a vector of shape [tensor_rows]
  int64_t first_row = 0;
  int64_t rows = 0;
  bool quantized = false;  // stored quantized when the checkpoint is (what dummy weights follow)

  // Found by resolve():
  kernels::WeightFormat format = kernels::WeightFormat::kF32;
  std::string scales;  // name of the tensor of scales; empty = none
};

enum class LoadKind {
  kLinear,  // -> PackedWeight
  kMla,     // one part, kv_b_proj -> MlaWeights
  kVector,  // norms, biases: parts one after the other, widened to fp32
  kTable,   // embedding: rows kept in the published type
};

struct LoadItem {
  LoadKind kind = LoadKind::kLinear;
  DeviceIndex device = 0;
  int32_t group = 0;  // items of one device and group share a buffer: one a layer, say
  kernels::Pairing pairing = kernels::Pairing::kConcatenate;
  kernels::MlaShape mla;                            // kMla
  tensor::DType mla_storage = tensor::DType::kF32;  // kMla
  std::vector<LoadPart> parts;

  size_t device_bytes = 0;  // found by resolve()
  size_t source_bytes = 0;  // found by resolve()
};

// What one item became; `index` as in the list. The member of the item's kind is set.
struct LoadedItem {
  kernels::PackedWeight linear;
  kernels::MlaWeights mla;
  const float* vector = nullptr;  // device memory
  tensor::TensorView table;       // device memory
};

}  // namespace tandem::weights
