#pragma once
// One item of attention: a few rows of a segment under a few heads, over one split of the context.

#include <algorithm>

#include "kernels/cpu/common/attention.h"

namespace tandem::kernels::cpu {

// Query vectors lie in order of rows, then heads.
struct AttentionItem {
  const Segment* segment;
  int32_t row;  // first, of the segment
  int32_t rows;
  int32_t head;  // first
  int32_t heads;

  int32_t vectors() const { return rows * heads; }
  int64_t position(int32_t vector) const {
    return int64_t{segment->first_position} + row + vector / heads;
  }
  int64_t last_position() const { return position(vectors() - 1); }
  int64_t splits() const { return last_position() / kAttentionSplit + 1; }
};

// Maximum, sum and accumulator of each query vector of an item, in memory of floats().
struct AttentionState {
  static int64_t stride(const AttentionJob& job) { return round_up(job.value_dims, kPanel); }
  static int64_t floats(const AttentionJob& job, int32_t vectors) {
    return 2 * round_up(vectors, 16) + vectors * stride(job);
  }
  AttentionState(const AttentionJob& job, int32_t vectors, float* memory)
      : maximum(memory),
        sum(memory + round_up(vectors, 16)),
        acc(memory + 2 * round_up(vectors, 16)),
        acc_stride(stride(job)) {}

  float* maximum;
  float* sum;
  float* acc;  // [vectors][acc_stride]
  int64_t acc_stride;
};

// What a member needs while it works on an item; `memory` is floats() long.
struct TileScratch {
  static int64_t floats(const AttentionJob& job, int32_t vectors);
  TileScratch(const AttentionJob& job, int32_t vectors, float* memory);

  float* queries;        // [vectors][dims]
  float* keys;           // [dims][64]
  float* scores;         // [kMaxTaskRows][64]
  float* value_chunk;    // [64][64]
  float* latent_turned;  // expanded: [latent + rope][64]
  float* values;         // expanded: [64][value_dims rounded up]
  float* panels;         // expanded: PanelScratch
};

// Const and without state of its own: any member.
class TileMaker {
 public:
  TileMaker(const MicroKernels& kernels, const AttentionJob& job) : kernels_(kernels), job_(job) {}

  void load_queries(const AttentionItem& item, const TileScratch& scratch) const;
  // The partial of one split into `state`, whatever it held.
  void run_split(const AttentionItem& item,
                 int64_t split,
                 const TileScratch& scratch,
                 const AttentionState& state) const;
  // `merged` holds the splits before `split`, nothing for split 0.
  void merge(const AttentionItem& item,
             int64_t split,
             const AttentionState& partial,
             const AttentionState& merged) const;
  void finish(const AttentionItem& item, const AttentionState& merged) const;

 private:
  const char* cache_block(const AttentionItem& item, int64_t tile) const;
  void load_tile(const AttentionItem& item,
                 int64_t tile,
                 int tokens,
                 const TileScratch& scratch,
                 AttendTile& out) const;
  void expand_tile(const AttentionItem& item,
                   const char* rows,
                   int tokens,
                   const TileScratch& scratch) const;

  const MicroKernels& kernels_;
  const AttentionJob& job_;
};

}  // namespace tandem::kernels::cpu
