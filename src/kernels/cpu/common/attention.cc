#include "kernels/cpu/common/attention.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/cpu/common/attention_tile.h"

namespace tandem::kernels::cpu {
namespace {

// Query vectors of one item: enough to make a key tile worth turning, few enough for the cache.
constexpr int32_t kGroupedRows = 96;
constexpr int32_t kAbsorbedRows = 48;
constexpr int32_t kAbsorbedHeads = 32;
// Batch rows of one item of the expanded form, which makes keys and values once for all of them.
constexpr int32_t kExpandedRows = 512;
constexpr int32_t kExpandedRowsLeast = 64;
// Partials that wait to be merged.
constexpr int64_t kMaxPartialBytes = int64_t{64} << 20;

class AttentionRun {
 public:
  AttentionRun(RunContext& context, const AttentionJob& job)
      : context_(context), job_(job), maker_(kernels_of(context), job) {}

  void run() {
    if (!measure()) return;
    cut();
    make_items();
    if (item_count_ == 0) return;
    scratch_floats_ = TileScratch::floats(job_, item_rows_);
    scratch_ = floats(scratch_floats_ * team_size(context_));
    const bool enough = item_count_ >= 2 * team_size(context_) || most_splits_ == 1;
    if (enough || work_ < kSerialWork) {
      run_items();
    } else {
      run_waves();
    }
  }

 private:
  float* floats(int64_t count) { return context_.scratch<float>(static_cast<size_t>(count)); }

  // Rows [begin, end) of segment s that take part; empty if begin >= end.
  std::pair<int32_t, int32_t> rows_of(const Segment& s) const {
    if (s.form != job_.form && !job_.any_form) return {0, 0};
    return {std::max(0, job_.first_token - s.first_row),
            std::min(s.rows, job_.end_token - s.first_row)};
  }

  // The amount of work, and whether every block number can be.
  bool measure() {
    for (int32_t i = 0; i < job_.batch.segment_count; ++i) {
      const Segment& s = job_.batch.segments[i];
      const auto [begin, end] = rows_of(s);
      if (begin >= end) continue;
      const int64_t context = int64_t{s.first_position} + end;
      const int32_t* table =
          job_.batch.block_table + int64_t{s.sequence} * job_.batch.block_table_stride;
      for (int64_t b = 0; b < divide_up(context, kBlockTokens); ++b) {
        if (table[b] >= 0) continue;
        context_.fail(ErrorCode::kInternal,
                      "attention: block {} in row {} of the block table",
                      table[b],
                      s.sequence);
        return false;
      }
      rows_ += end - begin;
      work_ += (end - begin) * context * job_.heads * (job_.dims + job_.value_dims);
      most_splits_ = std::max(most_splits_, divide_up(context, kAttentionSplit));
      most_rows_ = std::max(most_rows_, end - begin);
    }
    return true;
  }

  // How many heads and rows make an item: as many as the caches hold, fewer if members would idle.
  void cut() {
    const int64_t wanted = int64_t{2} * team_size(context_);
    if (job_.expand) {
      heads_ = 1;
      block_rows_ = std::min(kExpandedRows, most_rows_);
      while (block_rows_ > kExpandedRowsLeast &&
             divide_up(rows_, block_rows_) * job_.heads < wanted) {
        block_rows_ = std::max(kExpandedRowsLeast, block_rows_ / 2);
      }
    } else {
      const bool absorbed = job_.is_mla;
      heads_ = absorbed ? std::min(job_.heads, kAbsorbedHeads) : job_.heads_a_key;
      while (absorbed && heads_ > 4 &&
             rows_ * divide_up(job_.heads, heads_) * most_splits_ < wanted) {
        heads_ = static_cast<int32_t>(divide_up(heads_, 2));
      }
      const int32_t rows = absorbed ? kAbsorbedRows : kGroupedRows;
      block_rows_ = std::clamp(rows / heads_, 1, std::max(1, most_rows_));
      while (block_rows_ > 1 && block_rows_ * heads_ > 12 &&
             divide_up(rows_, block_rows_) * divide_up(job_.heads, heads_) < wanted) {
        block_rows_ = static_cast<int32_t>(divide_up(block_rows_, 2));
      }
    }
    item_rows_ = block_rows_ * heads_;
  }

  void make_items() {
    const int32_t groups = static_cast<int32_t>(divide_up(job_.heads, heads_));
    int64_t count = 0;
    for (int32_t i = 0; i < job_.batch.segment_count; ++i) {
      const auto [begin, end] = rows_of(job_.batch.segments[i]);
      if (begin < end) count += divide_up(end - begin, block_rows_) * groups;
    }
    items_ = context_.scratch<AttentionItem>(static_cast<size_t>(count));
    for (int32_t i = 0; i < job_.batch.segment_count; ++i) {
      const auto [begin, end] = rows_of(job_.batch.segments[i]);
      for (int32_t row = begin; row < end; row += block_rows_) {
        for (int32_t g = 0; g < groups; ++g) {
          AttentionItem& item = items_[item_count_++];
          item.segment = &job_.batch.segments[i];
          item.row = row;
          item.rows = std::min(block_rows_, end - row);
          item.head = g * heads_;
          item.heads = std::min(heads_, job_.heads - item.head);
        }
      }
    }
  }

  TileScratch scratch_of(int member) const {
    return TileScratch(job_, item_rows_, scratch_ + member * scratch_floats_);
  }

  // Each item with all its splits, one after another.
  void run_items() {
    const int64_t state_floats = AttentionState::floats(job_, item_rows_);
    float* states = floats(2 * state_floats * team_size(context_));
    share_out(context_, item_count_, 1, work_, [&](int64_t begin, int64_t end, int member) {
      float* mine = states + 2 * state_floats * member;
      const AttentionState merged(job_, item_rows_, mine);
      const AttentionState partial(job_, item_rows_, mine + state_floats);
      for (int64_t i = begin; i < end; ++i) {
        const AttentionItem& item = items_[i];
        const TileScratch scratch = scratch_of(member);
        maker_.load_queries(item, scratch);
        maker_.run_split(item, 0, scratch, merged);
        for (int64_t split = 1; split < item.splits(); ++split) {
          maker_.run_split(item, split, scratch, partial);
          maker_.merge(item, split, partial, merged);
        }
        maker_.finish(item, merged);
      }
    });
  }

  // Few items with long contexts: their splits in parallel, as many at a time as members can use.
  void run_waves() {
    const int64_t state_floats = AttentionState::floats(job_, item_rows_);
    const int64_t useful = divide_up(4 * team_size(context_), item_count_);
    const int64_t fitting =
        kMaxPartialBytes / (item_count_ * state_floats * int64_t{sizeof(float)});
    const int64_t wave = std::clamp(std::min(useful, fitting), int64_t{1}, most_splits_);
    float* merged = floats(item_count_ * state_floats);
    float* partials = floats(item_count_ * wave * state_floats);
    const auto state = [&](float* base, int64_t index) {
      return AttentionState(job_, item_rows_, base + index * state_floats);
    };
    for (int64_t first = 0; first < most_splits_; first += wave) {
      share_out(
          context_, item_count_ * wave, 1, work_, [&](int64_t begin, int64_t end, int member) {
            for (int64_t i = begin; i < end; ++i) {
              const AttentionItem& item = items_[i / wave];
              const int64_t split = first + i % wave;
              if (split >= item.splits()) continue;
              const TileScratch scratch = scratch_of(member);
              maker_.load_queries(item, scratch);
              maker_.run_split(item, split, scratch, state(partials, i));
            }
          });
      const int64_t work = item_count_ * wave * state_floats;
      share_out(context_, item_count_, 1, work, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) {
          const AttentionItem& item = items_[i];
          const int64_t last = std::min(first + wave, item.splits());
          for (int64_t split = first; split < last; ++split) {
            maker_.merge(item, split, state(partials, i * wave + split - first), state(merged, i));
          }
          if (first < item.splits() && first + wave >= item.splits()) {
            maker_.finish(item, state(merged, i));
          }
        }
      });
    }
  }

  RunContext& context_;
  const AttentionJob& job_;
  const TileMaker maker_;
  int64_t rows_ = 0;
  int64_t work_ = 0;
  int64_t most_splits_ = 1;
  int32_t most_rows_ = 0;
  int32_t heads_ = 1;       // of an item
  int32_t block_rows_ = 1;  // batch rows of an item
  int32_t item_rows_ = 1;   // query vectors of an item
  AttentionItem* items_ = nullptr;
  int64_t item_count_ = 0;
  float* scratch_ = nullptr;
  int64_t scratch_floats_ = 0;
};

}  // namespace

void run_attention(RunContext& context, const AttentionJob& job) {
  AttentionRun(context, job).run();
}

void CpuOperators::attend(RunContext& context, const AttendArgs& args) {
  AttentionJob job;
  job.batch = args.batch;
  job.end_token = args.batch.tokens;
  job.cache = args.cache;
  job.scale = args.scale;
  job.heads = args.heads;
  job.dims = args.cache.head_dim;
  job.value_dims = args.cache.head_dim;
  job.heads_a_key = args.heads / args.cache.kv_heads;
  job.q = args.q;
  job.out = args.out;
  job.out_head_columns = args.cache.head_dim;
  job.any_form = true;
  run_attention(context, job);
}

}  // namespace tandem::kernels::cpu
