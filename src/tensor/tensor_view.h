#pragma once
// C++20 (shared with .cu)

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace tandem::tensor {

// Borrowed, row-major, contiguous. Never kept past the owner of `data`.
struct TensorView {
  const void* data = nullptr;
  DType dtype = DType::kF32;
  Shape shape;

  size_t bytes() const { return static_cast<size_t>(shape.elements()) * size_of(dtype); }
  template <class T>
  const T* as() const {
    return static_cast<const T*>(data);
  }
};

// Borrowed rows with a stride: the form of every activation argument of an operator.
// [rows, columns], row r at data + r * stride elements.
struct RowsView {
  void* data = nullptr;
  DType dtype = DType::kF32;
  int64_t columns = 0;
  int64_t stride = 0;  // elements, >= columns

  template <class T>
  T* row(int64_t r) const {
    return static_cast<T*>(data) + r * stride;
  }
  // Columns [first, first + count) of every row.
  RowsView slice(int64_t first, int64_t count) const {
    return {static_cast<char*>(data) + first * static_cast<int64_t>(size_of(dtype)),
            dtype,
            count,
            stride};
  }
};

}  // namespace tandem::tensor
