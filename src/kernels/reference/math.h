#pragma once
// The arithmetic that several reference operators share, with its order of operations.

#include <cmath>
#include <cstdint>

#include "kernels/operators.h"

namespace tandem::kernels {

// sum of a[i] * b[i], from 0 in order, fused.
float dot(const float* a, const float* b, int64_t n);

// sum[i] += factor * x[i], fused.
void add_scaled(float factor, const float* x, int64_t n, float* sum);

// The fixed K partition (weight.h): sums of kKPartition products, added in order; with scales, each
// sum times its scale.
float dot_in_partitions(const float* x, const float* w, int64_t k, const float* scales);

inline float sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }
inline float silu(float x) { return x / (1.0f + std::exp(-x)); }

// x / sqrt(mean(x^2) + eps) * weight, in place.
inline void rms_normalize(float* x, const float* weight, int64_t n, float eps) {
  const float inverse = 1.0f / std::sqrt(dot(x, x, n) / static_cast<float>(n) + eps);
  for (int64_t i = 0; i < n; ++i) x[i] = x[i] * inverse * weight[i];
}

// Rotates the first `rotary` values of x by the angles of `position`, in place.
inline void rotate(float* x, const RopeTable& rope, int64_t position) {
  const int32_t half = rope.rotary / 2;
  for (int32_t i = 0; i < half; ++i) {
    float& a = x[rope.interleaved ? 2 * i : i];
    float& b = x[rope.interleaved ? 2 * i + 1 : i + half];
    const float c = rope.cos[position * half + i];
    const float s = rope.sin[position * half + i];
    const float rotated = a * c - b * s;
    b = b * c + a * s;
    a = rotated;
  }
}

}  // namespace tandem::kernels
