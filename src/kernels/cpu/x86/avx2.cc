// AVX2, FMA, F16C. A vector is two registers: lanes 0 to 7 and 8 to 15.

#include "kernels/cpu/common/micro_kernels.h"

#if defined(__AVX2__)

#include <immintrin.h>

namespace tandem::kernels::cpu {
namespace {

struct Vec {
  __m256 a;
  __m256 b;
};

inline __m256i ints(__m256 x) { return _mm256_castps_si256(x); }
inline __m256 floats(__m256i x) { return _mm256_castsi256_ps(x); }

inline Vec vec_set(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline Vec vec_load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline void vec_store(float* p, Vec x) {
  _mm256_storeu_ps(p, x.a);
  _mm256_storeu_ps(p + 8, x.b);
}
inline Vec vec_add(Vec x, Vec y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
inline Vec vec_sub(Vec x, Vec y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
inline Vec vec_mul(Vec x, Vec y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
inline Vec vec_div(Vec x, Vec y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
inline Vec vec_fma(Vec x, Vec y, Vec z) {
  return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
// The second if one is NaN.
inline Vec vec_max(Vec x, Vec y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
inline __m256 select_less(__m256 x, __m256 y, __m256 yes, __m256 no) {
  return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(x, y, _CMP_LT_OQ));
}
inline Vec vec_select_less(Vec x, Vec y, Vec yes, Vec no) {
  return {select_less(x.a, y.a, yes.a, no.a), select_less(x.b, y.b, yes.b, no.b)};
}
inline __m256 power_of_two(__m256 shifted) {
  return floats(
      _mm256_add_epi32(_mm256_slli_epi32(ints(shifted), 23), _mm256_set1_epi32(0x3f800000)));
}
inline Vec vec_power_of_two(Vec x) { return {power_of_two(x.a), power_of_two(x.b)}; }
inline Vec vec_low_halves(Vec x) {
  return {floats(_mm256_slli_epi32(ints(x.a), 16)), floats(_mm256_slli_epi32(ints(x.b), 16))};
}
inline Vec vec_high_halves(Vec x) {
  const __m256 mask = floats(_mm256_set1_epi32(static_cast<int>(0xffff0000u)));
  return {_mm256_and_ps(x.a, mask), _mm256_and_ps(x.b, mask)};
}
inline __m128i load_halves(const uint16_t* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}
inline __m256 widen_bf16_halves(__m128i x) {
  return floats(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
}
inline Vec vec_load_bf16(const uint16_t* p) {
  return {widen_bf16_halves(load_halves(p)), widen_bf16_halves(load_halves(p + 8))};
}
inline Vec vec_load_f16(const uint16_t* p) {
  return {_mm256_cvtph_ps(load_halves(p)), _mm256_cvtph_ps(load_halves(p + 8))};
}
// The code's sign and magnitude moved to where fp16 has them: the value times 2^-8, also for
// subnormal codes.
inline Vec vec_load_f8(const uint8_t* p) {
  const __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  const __m256i half =
      _mm256_and_si256(_mm256_slli_epi16(wide, 7), _mm256_set1_epi16(static_cast<short>(0xbf80)));
  return {_mm256_cvtph_ps(_mm256_castsi256_si128(half)),
          _mm256_cvtph_ps(_mm256_extracti128_si256(half, 1))};
}
inline __m256i round_bf16(__m256 x) {
  const __m256i bits = ints(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  const __m256i nan = ints(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  return _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, nan), 16);
}
inline void vec_store_bf16(uint16_t* p, Vec x) {
  // Packing works in 128-bit halves: the quarters come out as 0, 2, 1, 3.
  const __m256i packed = _mm256_packus_epi32(round_bf16(x.a), round_bf16(x.b));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xd8));
}
inline float vec_sum(Vec x) {
  const __m256 eight = _mm256_add_ps(x.a, x.b);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
inline float vec_max_of(Vec x) {
  const __m256 eight = _mm256_max_ps(x.a, x.b);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}

inline void transpose8(const __m256* in, __m256* out) {
  __m256 a[8];
  __m256 b[8];
  for (int i = 0; i < 8; i += 2) {
    a[i] = _mm256_unpacklo_ps(in[i], in[i + 1]);
    a[i + 1] = _mm256_unpackhi_ps(in[i], in[i + 1]);
  }
  for (int q = 0; q < 8; q += 4) {
    b[q + 0] = _mm256_shuffle_ps(a[q], a[q + 2], 0x44);
    b[q + 1] = _mm256_shuffle_ps(a[q], a[q + 2], 0xee);
    b[q + 2] = _mm256_shuffle_ps(a[q + 1], a[q + 3], 0x44);
    b[q + 3] = _mm256_shuffle_ps(a[q + 1], a[q + 3], 0xee);
  }
  for (int i = 0; i < 4; ++i) {
    out[i] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x20);
    out[i + 4] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x31);
  }
}
// out[i] lane j = 32-bit word i of rows[j].
inline void transpose_words(const char* const* rows, Vec* out) {
  for (int half = 0; half < 2; ++half) {
    for (int words = 0; words < 16; words += 8) {
      __m256 in[8];
      __m256 turned[8];
      for (int i = 0; i < 8; ++i) {
        in[i] = _mm256_loadu_ps(reinterpret_cast<const float*>(rows[8 * half + i]) + words);
      }
      transpose8(in, turned);
      for (int i = 0; i < 8; ++i) (half ? out[words + i].b : out[words + i].a) = turned[i];
    }
  }
}

// Vectors of a row that a tile of `rows` rows keeps in registers; there are 16 of half a vector.
constexpr int tile_vectors(int rows) { return rows == 1 ? 4 : rows <= 3 ? 2 : 1; }
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

const MicroKernels* avx2_kernels() { return &kTable; }

}  // namespace tandem::kernels::cpu

#else

namespace tandem::kernels::cpu {
const MicroKernels* avx2_kernels() { return nullptr; }
}  // namespace tandem::kernels::cpu

#endif
