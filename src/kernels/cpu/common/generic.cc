// The kernels for a machine of which nothing is known: arrays and plain loops.

#include "kernels/cpu/common/micro_kernels.h"

namespace tandem::kernels::cpu {
namespace {

struct Vec {
  float lane[16];
};

// Applies `f` lane by lane.
template <class F>
inline Vec map(F f) {
  Vec out;
  for (int i = 0; i < 16; ++i) out.lane[i] = f(i);
  return out;
}
inline uint32_t bits_of(float x) { return __builtin_bit_cast(uint32_t, x); }
inline float float_of(uint32_t bits) { return __builtin_bit_cast(float, bits); }

inline Vec vec_set(float x) {
  return map([&](int) { return x; });
}
inline Vec vec_load(const float* p) {
  Vec out;
  __builtin_memcpy(out.lane, p, sizeof(out));
  return out;
}
inline void vec_store(float* p, const Vec& x) { __builtin_memcpy(p, x.lane, sizeof(x)); }
inline Vec vec_add(const Vec& a, const Vec& b) {
  return map([&](int i) { return a.lane[i] + b.lane[i]; });
}
inline Vec vec_sub(const Vec& a, const Vec& b) {
  return map([&](int i) { return a.lane[i] - b.lane[i]; });
}
inline Vec vec_mul(const Vec& a, const Vec& b) {
  return map([&](int i) { return a.lane[i] * b.lane[i]; });
}
inline Vec vec_div(const Vec& a, const Vec& b) {
  return map([&](int i) { return a.lane[i] / b.lane[i]; });
}
inline Vec vec_fma(const Vec& a, const Vec& b, const Vec& c) {
  return map([&](int i) { return __builtin_fmaf(a.lane[i], b.lane[i], c.lane[i]); });
}
// The second if one is NaN.
inline Vec vec_max(const Vec& a, const Vec& b) {
  return map([&](int i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
}
inline Vec vec_select_less(const Vec& a, const Vec& b, const Vec& yes, const Vec& no) {
  return map([&](int i) { return a.lane[i] < b.lane[i] ? yes.lane[i] : no.lane[i]; });
}
inline Vec vec_power_of_two(const Vec& shifted) {
  return map([&](int i) { return float_of((bits_of(shifted.lane[i]) << 23) + 0x3f800000u); });
}
inline Vec vec_low_halves(const Vec& x) {
  return map([&](int i) { return float_of(bits_of(x.lane[i]) << 16); });
}
inline Vec vec_high_halves(const Vec& x) {
  return map([&](int i) { return float_of(bits_of(x.lane[i]) & 0xffff0000u); });
}
inline Vec vec_load_bf16(const uint16_t* p) {
  return map([&](int i) { return float_of(static_cast<uint32_t>(p[i]) << 16); });
}
inline float widen_f16_code(uint32_t code) {
  const uint32_t sign = (code & 0x8000u) << 16;
  const uint32_t magnitude = code & 0x7fffu;
  // Infinities and NaN, then normal values, then multiples of 2^-24.
  if (magnitude >= 0x7c00u) {
    const uint32_t quiet = magnitude > 0x7c00u ? 0x400000u : 0u;
    return float_of(sign | 0x7f800000u | quiet | (magnitude & 0x3ffu) << 13);
  }
  if (magnitude >= 0x400u) return float_of(sign | ((magnitude << 13) + (112u << 23)));
  const float value = static_cast<float>(magnitude) * 5.9604644775390625e-8f;
  return float_of(sign | bits_of(value));
}
inline Vec vec_load_f16(const uint16_t* p) {
  return map([&](int i) { return widen_f16_code(p[i]); });
}
inline Vec vec_load_f8(const uint8_t* p) {
  return map([&](int i) {
    const uint32_t code = p[i];
    return widen_f16_code((code & 0x80u) << 8 | (code & 0x7fu) << 7);
  });
}
inline void vec_store_bf16(uint16_t* p, const Vec& x) {
  for (int i = 0; i < 16; ++i) {
    const uint32_t bits = bits_of(x.lane[i]);
    const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    p[i] = static_cast<uint16_t>(is_nan ? (bits >> 16) | 0x40u
                                        : (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
  }
}
inline float vec_sum(const Vec& x) {
  float s[8];
  for (int i = 0; i < 8; ++i) s[i] = x.lane[i] + x.lane[i + 8];
  for (int i = 0; i < 4; ++i) s[i] = s[i] + s[i + 4];
  return (s[0] + s[2]) + (s[1] + s[3]);
}
inline float vec_max_of(const Vec& x) {
  float m = x.lane[0];
  for (int i = 1; i < 16; ++i) m = m > x.lane[i] ? m : x.lane[i];
  return m;
}
// out[i] lane j = 32-bit word i of rows[j].
inline void transpose_words(const char* const* rows, Vec* out) {
  for (int j = 0; j < 16; ++j) {
    float words[16];
    __builtin_memcpy(words, rows[j], sizeof(words));
    for (int i = 0; i < 16; ++i) out[i].lane[j] = words[i];
  }
}

// Vectors of a row that a tile of `rows` rows keeps in registers.
constexpr int tile_vectors(int) { return 1; }
constexpr int kMaxTileRows = 6;

// In this order: each uses the ones before.
// clang-format off
#include "kernels/cpu/common/vector_math.inc"
#include "kernels/cpu/common/vector_linear.inc"
#include "kernels/cpu/common/vector_attention.inc"
#include "kernels/cpu/common/vector_elementwise.inc"
// clang-format on

}  // namespace

#include "kernels/cpu/common/vector_table.inc"

const MicroKernels* generic_kernels() { return &kTable; }

}  // namespace tandem::kernels::cpu
