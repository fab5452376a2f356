#pragma once
// Random weights for a load list, without files (--load-format dummy): for measuring speed only.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "weights/load_list.h"
#include "weights/tensor_source.h"

namespace tandem::weights {

struct DummyConfig {
  tensor::DType dtype = tensor::DType::kBF16;  // of everything that is not quantized
  bool fp8_blocks = false;                     // `quantized` parts as e4m3 with 128x128 scales
  uint64_t seed = 0;
};

// Values are a pure function of (seed, name, index). Linears have variance 1 / k, so that each
// keeps the size of its input and nothing overflows; norms are 1, biases within 0.01.
class DummySource final : public TensorSource {
 public:
  DummySource(const std::vector<LoadItem>& items, const DummyConfig& config);

  std::optional<TensorInfo> find(std::string_view name) const override;
  std::vector<std::string_view> names() const override;
  Expected<tensor::TensorView> read(std::string_view name, Scratch& scratch) const override;
  void release(const tensor::TensorView&) const override {}

 private:
  enum class Fill { kLinear, kTable, kNorm, kBias, kScale };
  struct Entry {
    tensor::DType dtype = tensor::DType::kF32;
    tensor::Shape shape;
    Fill fill = Fill::kLinear;
    int64_t k = 1;  // columns of the linear that a scale belongs to
  };
  void generate(const Entry& entry, uint64_t key, std::byte* out) const;

  std::map<std::string, Entry, std::less<>> entries_;
  uint64_t seed_ = 0;
};

}  // namespace tandem::weights
