#pragma once
// The inner loops of the CPU device as a plain table, one table for each instruction set. The files
// that implement it are compiled with the flags of their instruction set, so they include nothing
// but this header and intrinsics: an inline function of the standard library that was instantiated
// there could be picked by the linker for the whole program.
//
// Arithmetic: a "vector" is 16 floats on every instruction set (one, two, four registers, or an
// array), each output element is one lane, and products are fused. All instruction sets therefore
// give the same bits.
//
// Any thread. Sizes are elements unless a name says bytes. No function checks its arguments.

#include <cstddef>
#include <cstdint>

namespace tandem::kernels::cpu {

// Output columns of a packed panel, and tokens of an attention tile.
constexpr int kPanel = 64;
// Rows of one PanelTask at most: bounds the scratch of a thread.
constexpr int kMaxTaskRows = 96;
// Values of k in one partition; equals kernels::kKPartition.
constexpr int kPartition = 128;

// How the 64 weights of one k lie in a panel. kF32, kF16, kF8: in order of columns. kBF16: columns
// i and 16 + i (then 32 + i and 48 + i) in the low and the high half of 32-bit word i, so that a
// shift and a mask widen them.
enum class PanelFormat : int32_t { kF32 = 0, kF16 = 1, kBF16 = 2, kF8 = 3 };

struct PanelSource {
  PanelFormat format = PanelFormat::kF32;
  const void* data = nullptr;     // [k][64]
  const float* scales = nullptr;  // [partitions][64] (kF8) or null
};

// totals[p][r][c] = sum over k of x[r][k] * panel p[k][c], in partitions of kPartition.
struct PanelTask {
  int rows = 0;  // 1 … kMaxTaskRows
  int64_t k = 0;
  const void* const* x = nullptr;  // [rows], bf16 or float
  bool x_is_bf16 = false;
  int panels = 1;  // 1 or 2
  PanelSource panel[2];
  float* totals = nullptr;     // out [panels][rows][kPanel]
  float* x_scratch = nullptr;  // [rows][kPartition]
  float* w_scratch = nullptr;  // [kPartition][kPanel]
};

enum class Finish : int32_t { kStore = 0, kAdd = 1, kSiluMul = 2 };

// Writes the first `columns` totals of each row with bias and epilogue.
struct FinishTask {
  int rows = 0;
  int columns = 0;                 // 1 … kPanel
  const float* totals = nullptr;   // [rows][kPanel]; kSiluMul: then those of up
  const float* bias = nullptr;     // [columns] or null
  const float* bias_up = nullptr;  // kSiluMul
  Finish finish = Finish::kStore;
  bool out_is_bf16 = false;
  void* const* out = nullptr;  // [rows], at the first column
};

// One tile of at most 64 tokens under `rows` queries: online softmax.
struct AttendTile {
  int rows = 0;
  int dims = 0;
  int value_dims = 0;
  const float* const* q = nullptr;   // [rows][dims]
  const int32_t* visible = nullptr;  // [rows] tokens of the tile that the row sees, 0 … 64
  float scale = 0;
  const float* keys = nullptr;   // [dims][kPanel]: from transpose_keys
  const void* values = nullptr;  // first token's; rows of value_dims
  int64_t value_stride_bytes = 0;
  bool values_are_bf16 = false;
  float* maximum = nullptr;        // [rows] in and out
  float* sum = nullptr;            // [rows] in and out
  float* acc = nullptr;            // [rows][acc_stride] in and out
  int64_t acc_stride = 0;          // value_dims rounded up to kPanel
  float* scores = nullptr;         // scratch [rows][kPanel]
  float* value_scratch = nullptr;  // scratch [kPanel][kPanel]
};

struct NormTask {
  int64_t n = 0;
  float* x = nullptr;            // [n] in, out with delta
  const float* delta = nullptr;  // [n] or null
  const float* weight = nullptr;
  float eps = 0;
  void* out = nullptr;  // null: only the addition
  bool out_is_bf16 = false;
};

// Rotation of one head's vector; writes all of [0, rotary).
struct RotateTask {
  int32_t rotary = 0;
  bool interleaved = false;
  const float* cos = nullptr;  // [rotary / 2]
  const float* sin = nullptr;
  float* x = nullptr;  // in place
};

struct MicroKernels {
  void (*multiply)(const PanelTask&);
  void (*finish)(const FinishTask&);

  // out[d][t] = row t's value d, zeros for t >= tokens.
  void (*transpose_keys)(
      const void* rows, int64_t stride_bytes, bool bf16, int tokens, int dims, float* out);
  void (*attend_tile)(const AttendTile&);
  // (maximum, sum, acc) := itself merged with the partial (m, s, a) that follows it.
  void (*merge_partial)(
      float* maximum, float* sum, float* acc, float m, float s, const float* a, int64_t n);
  // out = acc / sum
  void (*finish_attention)(const float* acc, float sum, int64_t n, void* out, bool out_is_bf16);

  void (*rms_norm)(const NormTask&);
  void (*rotate)(const RotateTask&);
  void (*widen_bf16)(const uint16_t* in, float* out, int64_t n);
  void (*widen_f16)(const uint16_t* in, float* out, int64_t n);
  void (*narrow_bf16)(const float* in, uint16_t* out, int64_t n);
  // out (from zero, or `onto` what is there) += weights[s] * rows[s], s in order.
  void (*weighted_sum)(
      const float* const* rows, const float* weights, int count, int64_t n, bool onto, float* out);
  // The largest value and its lowest index; false if any is NaN. n >= 1.
  bool (*argmax)(const float* x, int64_t n, float* maximum, int64_t* index);
  // Sum of exp(x - maximum); the terms go to `out` unless it is null (x itself will do).
  double (*exp_row)(const float* x, int64_t n, float maximum, float* out);
  // x = (x - maximum) / divisor
  void (*scale_logits)(float* x, int64_t n, float maximum, float divisor);
  void (*sigmoid)(float* x, int64_t n);

  // For benchmarks: what one thread can reach. Reads [0, n), n a multiple of 256.
  float (*probe_read)(const float* x, int64_t n);
  // `rounds` times fused multiply-adds in independent chains.
  float (*probe_multiply_add)(int64_t rounds);
  double probe_flops_a_round;
};

// Null where the program was built for another architecture.
const MicroKernels* generic_kernels();
const MicroKernels* avx2_kernels();
const MicroKernels* avx512_kernels();
const MicroKernels* neon_kernels();

}  // namespace tandem::kernels::cpu
