// Arm v8.2 NEON (TaiShan v110 and later). A vector is four registers: lanes 0 to 3, 4 to 7, …

#include "kernels/cpu/common/micro_kernels.h"

#if defined(__aarch64__)

#include <arm_neon.h>

namespace tandem::kernels::cpu {
namespace {

struct Vec {
  float32x4_t a;
  float32x4_t b;
  float32x4_t c;
  float32x4_t d;
};

inline uint32x4_t ints(float32x4_t x) { return vreinterpretq_u32_f32(x); }
inline float32x4_t floats(uint32x4_t x) { return vreinterpretq_f32_u32(x); }

inline Vec vec_set(float x) {
  const float32x4_t v = vdupq_n_f32(x);
  return {v, v, v, v};
}
inline Vec vec_load(const float* p) {
  return {vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)};
}
inline void vec_store(float* p, Vec x) {
  vst1q_f32(p, x.a);
  vst1q_f32(p + 4, x.b);
  vst1q_f32(p + 8, x.c);
  vst1q_f32(p + 12, x.d);
}
inline Vec vec_add(Vec x, Vec y) {
  return {vaddq_f32(x.a, y.a), vaddq_f32(x.b, y.b), vaddq_f32(x.c, y.c), vaddq_f32(x.d, y.d)};
}
inline Vec vec_sub(Vec x, Vec y) {
  return {vsubq_f32(x.a, y.a), vsubq_f32(x.b, y.b), vsubq_f32(x.c, y.c), vsubq_f32(x.d, y.d)};
}
inline Vec vec_mul(Vec x, Vec y) {
  return {vmulq_f32(x.a, y.a), vmulq_f32(x.b, y.b), vmulq_f32(x.c, y.c), vmulq_f32(x.d, y.d)};
}
inline Vec vec_div(Vec x, Vec y) {
  return {vdivq_f32(x.a, y.a), vdivq_f32(x.b, y.b), vdivq_f32(x.c, y.c), vdivq_f32(x.d, y.d)};
}
inline Vec vec_fma(Vec x, Vec y, Vec z) {
  return {vfmaq_f32(z.a, x.a, y.a),
          vfmaq_f32(z.b, x.b, y.b),
          vfmaq_f32(z.c, x.c, y.c),
          vfmaq_f32(z.d, x.d, y.d)};
}
// The second if one is NaN.
inline float32x4_t max_of(float32x4_t x, float32x4_t y) { return vbslq_f32(vcgtq_f32(x, y), x, y); }
inline Vec vec_max(Vec x, Vec y) {
  return {max_of(x.a, y.a), max_of(x.b, y.b), max_of(x.c, y.c), max_of(x.d, y.d)};
}
inline float32x4_t select_less(float32x4_t x, float32x4_t y, float32x4_t yes, float32x4_t no) {
  return vbslq_f32(vcltq_f32(x, y), yes, no);
}
inline Vec vec_select_less(Vec x, Vec y, Vec yes, Vec no) {
  return {select_less(x.a, y.a, yes.a, no.a),
          select_less(x.b, y.b, yes.b, no.b),
          select_less(x.c, y.c, yes.c, no.c),
          select_less(x.d, y.d, yes.d, no.d)};
}
inline float32x4_t power_of_two(float32x4_t shifted) {
  return floats(vaddq_u32(vshlq_n_u32(ints(shifted), 23), vdupq_n_u32(0x3f800000u)));
}
inline Vec vec_power_of_two(Vec x) {
  return {power_of_two(x.a), power_of_two(x.b), power_of_two(x.c), power_of_two(x.d)};
}
inline float32x4_t low_halves(float32x4_t x) { return floats(vshlq_n_u32(ints(x), 16)); }
inline Vec vec_low_halves(Vec x) {
  return {low_halves(x.a), low_halves(x.b), low_halves(x.c), low_halves(x.d)};
}
inline float32x4_t high_halves(float32x4_t x) {
  return floats(vandq_u32(ints(x), vdupq_n_u32(0xffff0000u)));
}
inline Vec vec_high_halves(Vec x) {
  return {high_halves(x.a), high_halves(x.b), high_halves(x.c), high_halves(x.d)};
}
inline float32x4_t widen_bf16_halves(uint16x4_t x) { return floats(vshll_n_u16(x, 16)); }
inline Vec vec_load_bf16(const uint16_t* p) {
  return {floats(vshlq_n_u32(vmovl_u16(vld1_u16(p)), 16)),
          floats(vshlq_n_u32(vmovl_u16(vld1_u16(p + 4)), 16)),
          floats(vshlq_n_u32(vmovl_u16(vld1_u16(p + 8)), 16)),
          floats(vshlq_n_u32(vmovl_u16(vld1_u16(p + 12)), 16))};
}
inline float32x4_t widen_f16_halves(uint16x4_t x) { return vcvt_f32_f16(vreinterpret_f16_u16(x)); }
inline Vec vec_load_f16(const uint16_t* p) {
  return {widen_f16_halves(vld1_u16(p)),
          widen_f16_halves(vld1_u16(p + 4)),
          widen_f16_halves(vld1_u16(p + 8)),
          widen_f16_halves(vld1_u16(p + 12))};
}
// The code's sign and magnitude moved to where fp16 has them: the value times 2^-8, also for
// subnormal codes.
inline uint16x8_t move_f8(int8x8_t codes) {
  return vandq_u16(vreinterpretq_u16_s16(vshlq_n_s16(vmovl_s8(codes), 7)), vdupq_n_u16(0xbf80));
}
inline Vec vec_load_f8(const uint8_t* p) {
  const int8x16_t codes = vreinterpretq_s8_u8(vld1q_u8(p));
  const uint16x8_t low = move_f8(vget_low_s8(codes));
  const uint16x8_t high = move_f8(vget_high_s8(codes));
  return {widen_f16_halves(vget_low_u16(low)),
          widen_f16_halves(vget_high_u16(low)),
          widen_f16_halves(vget_low_u16(high)),
          widen_f16_halves(vget_high_u16(high))};
}
inline uint16x4_t round_bf16(float32x4_t x) {
  const uint32x4_t bits = ints(x);
  const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
  const uint32x4_t rounded = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
  const uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
  return vshrn_n_u32(vbslq_u32(vceqq_f32(x, x), rounded, quiet), 16);
}
inline void vec_store_bf16(uint16_t* p, Vec x) {
  vst1_u16(p, round_bf16(x.a));
  vst1_u16(p + 4, round_bf16(x.b));
  vst1_u16(p + 8, round_bf16(x.c));
  vst1_u16(p + 12, round_bf16(x.d));
}
inline float vec_sum(Vec x) {
  const float32x4_t four = vaddq_f32(vaddq_f32(x.a, x.c), vaddq_f32(x.b, x.d));
  const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
  return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}
inline float vec_max_of(Vec x) {
  const float32x4_t four = max_of(max_of(x.a, x.c), max_of(x.b, x.d));
  float lane[4];
  vst1q_f32(lane, four);
  const float even = lane[0] > lane[2] ? lane[0] : lane[2];
  const float odd = lane[1] > lane[3] ? lane[1] : lane[3];
  return even > odd ? even : odd;
}

inline void transpose4(const char* const* rows, int word, float32x4_t* out) {
  float32x4_t in[4];
  for (int i = 0; i < 4; ++i) in[i] = vld1q_f32(reinterpret_cast<const float*>(rows[i]) + word);
  const float32x4_t low01 = vzip1q_f32(in[0], in[1]);
  const float32x4_t high01 = vzip2q_f32(in[0], in[1]);
  const float32x4_t low23 = vzip1q_f32(in[2], in[3]);
  const float32x4_t high23 = vzip2q_f32(in[2], in[3]);
  out[0] = vcombine_f32(vget_low_f32(low01), vget_low_f32(low23));
  out[1] = vcombine_f32(vget_high_f32(low01), vget_high_f32(low23));
  out[2] = vcombine_f32(vget_low_f32(high01), vget_low_f32(high23));
  out[3] = vcombine_f32(vget_high_f32(high01), vget_high_f32(high23));
}
// out[i] lane j = 32-bit word i of rows[j].
inline void transpose_words(const char* const* rows, Vec* out) {
  for (int word = 0; word < 16; word += 4) {
    float32x4_t t[4][4];
    for (int q = 0; q < 4; ++q) transpose4(rows + 4 * q, word, t[q]);
    for (int i = 0; i < 4; ++i) out[word + i] = {t[0][i], t[1][i], t[2][i], t[3][i]};
  }
}

// Vectors of a row that a tile of `rows` rows keeps in registers; there are 32 of a quarter vector.
constexpr int tile_vectors(int rows) { return rows == 1 ? 4 : rows == 2 ? 2 : 1; }
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

const MicroKernels* neon_kernels() { return &kTable; }

}  // namespace tandem::kernels::cpu

#else

namespace tandem::kernels::cpu {
const MicroKernels* neon_kernels() { return nullptr; }
}  // namespace tandem::kernels::cpu

#endif
