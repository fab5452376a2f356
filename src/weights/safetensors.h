#pragma once
// The safetensors format (github.com/huggingface/safetensors, "Format"): 8 bytes little-endian
// header length, a JSON header of names, types, shapes and byte ranges, then the bytes. Everything
// in the header is checked against the file before anything is used; nothing is copied.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "tensor/tensor_view.h"

namespace tandem::weights {

// The format's own limit on the header.
constexpr size_t kMaxSafetensorsHeaderBytes = 100'000'000;
// More tensors than any published shard holds; bounds what a header can make us allocate.
constexpr size_t kMaxTensorsPerFile = 1'000'000;

struct NamedTensor {
  std::string name;
  tensor::TensorView view;  // into the file; may be less aligned than its type
};

// The tensors of one file, in the order of their bytes. `file` is the whole content, which must
// outlive the views. As the format demands, the ranges follow each other without holes or overlaps
// and end at the end of the file. Errors (kCorruptData, kUnsupported) name file, tensor, found and
// wanted bytes. Any thread.
Expected<std::vector<NamedTensor>> parse_safetensors(std::span<const std::byte> file,
                                                     std::string_view file_name);

}  // namespace tandem::weights
