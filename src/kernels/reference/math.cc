#include "kernels/reference/math.h"

namespace tandem::kernels {
namespace {

[[gnu::always_inline]] inline float fused_dot(const float* a, const float* b, int64_t n) {
  float sum = 0;
  for (int64_t i = 0; i < n; ++i) sum = std::fma(a[i], b[i], sum);
  return sum;
}

[[gnu::always_inline]] inline void fused_add(float factor, const float* x, int64_t n, float* sum) {
  for (int64_t i = 0; i < n; ++i) sum[i] = std::fma(factor, x[i], sum[i]);
}

// std::fma is exact: the instruction changes no bit, but without it every product is a call.
#if defined(__x86_64__)
const bool kHasFma = __builtin_cpu_supports("fma") != 0;

[[gnu::target("fma")]] float dot_by_instruction(const float* a, const float* b, int64_t n) {
  return fused_dot(a, b, n);
}

[[gnu::target("fma")]] void add_by_instruction(float factor,
                                               const float* x,
                                               int64_t n,
                                               float* sum) {
  fused_add(factor, x, n, sum);
}
#endif

}  // namespace

float dot(const float* a, const float* b, int64_t n) {
#if defined(__x86_64__)
  if (kHasFma) return dot_by_instruction(a, b, n);
#endif
  return fused_dot(a, b, n);
}

void add_scaled(float factor, const float* x, int64_t n, float* sum) {
#if defined(__x86_64__)
  if (kHasFma) return add_by_instruction(factor, x, n, sum);
#endif
  fused_add(factor, x, n, sum);
}

float dot_in_partitions(const float* x, const float* w, int64_t k, const float* scales) {
  float total = 0;
  for (int64_t begin = 0; begin < k; begin += kKPartition) {
    const int64_t length = k - begin < kKPartition ? k - begin : kKPartition;
    const float sum = dot(x + begin, w + begin, length);
    total = scales ? std::fma(sum, scales[begin / kKPartition], total) : total + sum;
  }
  return total;
}

}  // namespace tandem::kernels
