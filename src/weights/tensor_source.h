#pragma once
// Where the tensors of a model come from: published files or a generator of random ones.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "tensor/tensor_view.h"

namespace tandem::weights {

struct TensorInfo {
  tensor::DType dtype = tensor::DType::kF32;
  tensor::Shape shape;
  std::string_view file;  // for messages; as long as the source
};

// Memory that read() may fill; one a worker and a tensor that is open at the same time.
using Scratch = std::vector<std::byte>;

// Immutable after construction: every function from any thread, several at once.
class TensorSource {
 public:
  virtual ~TensorSource() = default;

  virtual std::optional<TensorInfo> find(std::string_view name) const = 0;
  virtual std::vector<std::string_view> names() const = 0;

  // The bytes of a tensor that find() knows, aligned for its type: in the source's own memory or in
  // `scratch`. Valid until release(), or until scratch changes.
  virtual Expected<tensor::TensorView> read(std::string_view name, Scratch& scratch) const = 0;

  // The caller is done with a view that read() gave: its pages may go.
  virtual void release(const tensor::TensorView& view) const = 0;
};

}  // namespace tandem::weights
