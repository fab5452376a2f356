#pragma once
// One buffer cut into the arrays of a step: allocated once, sized for the largest batch.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "kernels/device.h"
#include "tensor/buffer.h"
#include "tensor/tensor_view.h"

namespace tandem::model {

// Reserve every array first, then allocate, then take them in the same order. One thread.
class Workspace {
 public:
  static constexpr size_t kAlignment = 256;

  void reserve(int64_t bytes) {
    offsets_.push_back(total_);
    total_ += (static_cast<size_t>(bytes) + kAlignment - 1) / kAlignment * kAlignment;
  }
  void reserve(int64_t rows, int64_t columns, tensor::DType type) {
    reserve(rows * columns * static_cast<int64_t>(tensor::size_of(type)));
  }
  size_t bytes() const { return total_; }

  Expected<void> allocate(kernels::DeviceRef device,
                          tensor::MemoryKind kind = tensor::MemoryKind::kDevice) {
    TANDEM_ASSIGN(buffer_,
                  tensor::Buffer::allocate(device.device,
                                           device.api->memory,
                                           {.bytes = total_ ? total_ : kAlignment, .kind = kind}));
    return {};
  }

  void* take() {
    TANDEM_CHECK(next_ < offsets_.size());
    return buffer_.as<std::byte>() + offsets_[next_++];
  }
  tensor::RowsView take_rows(int64_t columns, tensor::DType type) {
    return {take(), type, columns, columns};
  }

 private:
  tensor::Buffer buffer_;
  std::vector<size_t> offsets_;
  size_t total_ = 0;
  size_t next_ = 0;
};

}  // namespace tandem::model
