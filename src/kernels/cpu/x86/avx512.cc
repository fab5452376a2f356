// AVX-512 F, BW, DQ, VL.

#include "kernels/cpu/common/micro_kernels.h"

#if defined(__AVX512F__)

#include <immintrin.h>

namespace tandem::kernels::cpu {
namespace {

struct Vec {
  __m512 v;
};

inline __m512i ints(Vec x) { return _mm512_castps_si512(x.v); }
inline Vec floats(__m512i x) { return {_mm512_castsi512_ps(x)}; }

inline Vec vec_set(float x) { return {_mm512_set1_ps(x)}; }
inline Vec vec_load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline void vec_store(float* p, Vec x) { _mm512_storeu_ps(p, x.v); }
inline Vec vec_add(Vec a, Vec b) { return {_mm512_add_ps(a.v, b.v)}; }
inline Vec vec_sub(Vec a, Vec b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline Vec vec_mul(Vec a, Vec b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline Vec vec_div(Vec a, Vec b) { return {_mm512_div_ps(a.v, b.v)}; }
inline Vec vec_fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
// The second if one is NaN.
inline Vec vec_max(Vec a, Vec b) { return {_mm512_max_ps(a.v, b.v)}; }
inline Vec vec_select_less(Vec a, Vec b, Vec yes, Vec no) {
  return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), no.v, yes.v)};
}
inline Vec vec_power_of_two(Vec shifted) {
  return floats(
      _mm512_add_epi32(_mm512_slli_epi32(ints(shifted), 23), _mm512_set1_epi32(0x3f800000)));
}
inline Vec vec_low_halves(Vec x) { return floats(_mm512_slli_epi32(ints(x), 16)); }
inline Vec vec_high_halves(Vec x) {
  return floats(_mm512_and_si512(ints(x), _mm512_set1_epi32(static_cast<int>(0xffff0000u))));
}
inline __m256i load_halves(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
inline Vec vec_load_bf16(const uint16_t* p) {
  return floats(_mm512_slli_epi32(_mm512_cvtepu16_epi32(load_halves(p)), 16));
}
inline Vec vec_load_f16(const uint16_t* p) { return {_mm512_cvtph_ps(load_halves(p))}; }
// The code's sign and magnitude moved to where fp16 has them: the value times 2^-8, also for
// subnormal codes.
inline Vec vec_load_f8(const uint8_t* p) {
  const __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  const __m256i half =
      _mm256_and_si256(_mm256_slli_epi16(wide, 7), _mm256_set1_epi16(static_cast<short>(0xbf80)));
  return {_mm512_cvtph_ps(half)};
}
inline void vec_store_bf16(uint16_t* p, Vec x) {
  const __m512i bits = ints(x);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
  const __mmask16 nan = _mm512_cmp_ps_mask(x.v, x.v, _CMP_UNORD_Q);
  const __m512i chosen = _mm512_mask_blend_epi32(nan, rounded, quiet);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtepi32_epi16(_mm512_srli_epi32(chosen, 16)));
}
inline float vec_sum(Vec x) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(x.v), _mm512_extractf32x8_ps(x.v, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
inline float vec_max_of(Vec x) {
  const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(x.v), _mm512_extractf32x8_ps(x.v, 1));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}

// out[i] lane j = 32-bit word i of rows[j]: pairs of rows, fours, then 128-bit quarters.
inline void transpose_words(const char* const* rows, Vec* out) {
  __m512i a[16];
  __m512i b[16];
  for (int i = 0; i < 16; ++i) a[i] = _mm512_loadu_si512(rows[i]);
  for (int i = 0; i < 16; i += 2) {
    b[i] = _mm512_unpacklo_epi32(a[i], a[i + 1]);
    b[i + 1] = _mm512_unpackhi_epi32(a[i], a[i + 1]);
  }
  // a[4q + c]: rows 4q … 4q + 3, words c, c + 4, c + 8, c + 12.
  for (int q = 0; q < 4; ++q) {
    a[4 * q + 0] = _mm512_unpacklo_epi64(b[4 * q], b[4 * q + 2]);
    a[4 * q + 1] = _mm512_unpackhi_epi64(b[4 * q], b[4 * q + 2]);
    a[4 * q + 2] = _mm512_unpacklo_epi64(b[4 * q + 1], b[4 * q + 3]);
    a[4 * q + 3] = _mm512_unpackhi_epi64(b[4 * q + 1], b[4 * q + 3]);
  }
  for (int c = 0; c < 4; ++c) {
    const __m512i low01 = _mm512_shuffle_i32x4(a[c], a[4 + c], 0x88);
    const __m512i high01 = _mm512_shuffle_i32x4(a[c], a[4 + c], 0xdd);
    const __m512i low23 = _mm512_shuffle_i32x4(a[8 + c], a[12 + c], 0x88);
    const __m512i high23 = _mm512_shuffle_i32x4(a[8 + c], a[12 + c], 0xdd);
    out[c] = floats(_mm512_shuffle_i32x4(low01, low23, 0x88));
    out[c + 8] = floats(_mm512_shuffle_i32x4(low01, low23, 0xdd));
    out[c + 4] = floats(_mm512_shuffle_i32x4(high01, high23, 0x88));
    out[c + 12] = floats(_mm512_shuffle_i32x4(high01, high23, 0xdd));
  }
}

// Vectors of a row that a tile of `rows` rows keeps in registers: 6 x 4 or 12 x 2 sums. The flat
// form widens a weight half as often.
constexpr int tile_vectors(int rows) { return rows <= 6 ? 4 : 2; }
constexpr int kMaxTileRows = 12;

// In this order: each uses the ones before.
// clang-format off
#include "kernels/cpu/common/vector_math.inc"
#include "kernels/cpu/common/vector_linear.inc"
#include "kernels/cpu/common/vector_attention.inc"
#include "kernels/cpu/common/vector_elementwise.inc"
// clang-format on

}  // namespace

#include "kernels/cpu/common/vector_table.inc"

const MicroKernels* avx512_kernels() { return &kTable; }

}  // namespace tandem::kernels::cpu

#else

namespace tandem::kernels::cpu {
const MicroKernels* avx512_kernels() { return nullptr; }
}  // namespace tandem::kernels::cpu

#endif
