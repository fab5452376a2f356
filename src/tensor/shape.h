#pragma once
// C++20 (shared with .cu)

#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace tandem::tensor {

constexpr int kMaxRank = 4;

// Up to four extents, outermost first. A value.
struct Shape {
  int32_t rank = 0;
  int64_t extent[kMaxRank] = {};

  constexpr Shape() = default;
  // More than kMaxRank extents: the rest is dropped; callers check file input first (weights/).
  constexpr Shape(std::initializer_list<int64_t> extents) {
    for (const int64_t e : extents) {
      if (rank < kMaxRank) extent[rank++] = e;
    }
  }

  constexpr int64_t operator[](int axis) const { return extent[axis]; }
  // Product of the extents; 1 for rank 0. Overflow is the caller's business for untrusted extents.
  constexpr int64_t elements() const {
    int64_t product = 1;
    for (int i = 0; i < rank; ++i) product *= extent[i];
    return product;
  }
  friend constexpr bool operator==(const Shape& a, const Shape& b) {
    if (a.rank != b.rank) return false;
    for (int i = 0; i < a.rank; ++i) {
      if (a.extent[i] != b.extent[i]) return false;
    }
    return true;
  }
};

}  // namespace tandem::tensor
