// MLA attention. Absorbed: queries go into the latent space (W_UK), attention runs over the cache's
// rows as they are, results come back (W_UV). Expanded: attention.h with keys and values made from
// the cache.

#include <algorithm>

#include "kernels/cpu/common/attention.h"
#include "kernels/cpu/common/mla_layout.h"

namespace tandem::kernels::cpu {
namespace {

// Latent queries and results of the rows in work; more rows go in turns.
constexpr int64_t kMaxLatentBytes = int64_t{64} << 20;

class AbsorbedRun {
 public:
  AbsorbedRun(RunContext& context, const MlaAttendArgs& args)
      : context_(context),
        kernels_(kernels_of(context)),
        args_(args),
        shape_(args.weights->shape),
        layout_(args.weights->shape, args.weights->dtype),
        width_(shape_.latent + shape_.rope) {}

  void run() {
    const int64_t row_bytes = shape_.heads * width_ * int64_t{sizeof(float)};
    const auto turn = static_cast<int32_t>(
        std::clamp<int64_t>(kMaxLatentBytes / row_bytes, 1, args_.batch.tokens));
    rows_ = context_.scratch<int32_t>(static_cast<size_t>(turn));
    latent_ = context_.scratch<float>(static_cast<size_t>(turn * shape_.heads * width_));
    panels_ =
        context_.scratch<float>(static_cast<size_t>(PanelScratch::kFloats * team_size(context_)));
    for (first_ = 0; first_ < args_.batch.tokens; first_ = end_) {
      end_ = std::min(first_ + turn, args_.batch.tokens);
      find_rows();
      if (row_count_ == 0) continue;
      const int64_t work = row_count_ * shape_.heads * shape_.latent;
      for_heads(work * shape_.nope, &AbsorbedRun::absorb);
      attend();
      if (context_.failed()) return;
      for_heads(work * shape_.value, &AbsorbedRun::project);
    }
  }

 private:
  void find_rows() {
    row_count_ = 0;
    for (int32_t i = 0; i < args_.batch.segment_count; ++i) {
      const Segment& s = args_.batch.segments[i];
      if (s.form != MlaForm::kAbsorbed) continue;
      const int32_t end = std::min(end_, s.first_row + s.rows);
      for (int32_t t = std::max(first_, s.first_row); t < end; ++t) rows_[row_count_++] = t;
    }
  }

  struct Block {
    int64_t head;
    const int32_t* tokens;
    int count;
  };
  using Task = void (AbsorbedRun::*)(const Block&, const PanelScratch&) const;
  void for_heads(int64_t work, Task task) {
    const int64_t blocks = divide_up(row_count_, kMaxTaskRows);
    const int64_t rows = divide_up(row_count_, blocks);
    share_out(
        context_, shape_.heads * blocks, 1, work, [&](int64_t begin, int64_t end, int member) {
          const PanelScratch scratch(panels_ + member * PanelScratch::kFloats);
          for (int64_t i = begin; i < end; ++i) {
            const int64_t first = i % blocks * rows;
            const int64_t count = std::min(rows, row_count_ - first);
            if (count <= 0) continue;
            const Block block{i / blocks, rows_ + first, static_cast<int>(count)};
            (this->*task)(block, scratch);
          }
        });
  }

  float* latent_row(int64_t token, int64_t head) const {
    return latent_ + ((token - first_) * shape_.heads + head) * width_;
  }

  PanelTask panel_task(const Block& block, const void* const* x, const PanelScratch& s) const {
    PanelTask task;
    task.rows = block.count;
    task.x = x;
    task.totals = s.totals;
    task.x_scratch = s.x;
    task.w_scratch = s.w;
    return task;
  }

  // Latent query and rotary query side by side.
  void absorb(const Block& block, const PanelScratch& scratch) const {
    const void* x[kMaxTaskRows];
    const int64_t head_width = int64_t{shape_.nope} + shape_.rope;
    const bool bf16 = args_.q.dtype == DType::kBF16;
    for (int r = 0; r < block.count; ++r) {
      const int64_t index = block.tokens[r] * args_.q.stride + block.head * head_width;
      x[r] = static_cast<const char*>(args_.q.data) + index * bytes_of(args_.q.dtype);
      float* rotary = latent_row(block.tokens[r], block.head) + shape_.latent;
      if (bf16) {
        kernels_.widen_bf16(static_cast<const uint16_t*>(x[r]) + shape_.nope, rotary, shape_.rope);
      } else {
        std::copy_n(static_cast<const float*>(x[r]) + shape_.nope, shape_.rope, rotary);
      }
    }
    PanelTask task = panel_task(block, x, scratch);
    task.k = shape_.nope;
    task.x_is_bf16 = bf16;
    for (int64_t p = 0; p < layout_.latent_panels; ++p) {
      task.panel[0] = layout_.uk_panel(*args_.weights, block.head, p);
      kernels_.multiply(task);
      void* out[kMaxTaskRows];
      for (int r = 0; r < block.count; ++r) {
        out[r] = latent_row(block.tokens[r], block.head) + p * kPanel;
      }
      finish(task, shape_.latent - p * kPanel, false, out);
    }
  }

  void project(const Block& block, const PanelScratch& scratch) const {
    const void* x[kMaxTaskRows];
    for (int r = 0; r < block.count; ++r) x[r] = latent_row(block.tokens[r], block.head);
    PanelTask task = panel_task(block, x, scratch);
    task.k = shape_.latent;
    for (int64_t p = 0; p < layout_.value_panels; ++p) {
      task.panel[0] = layout_.uv_panel(*args_.weights, block.head, p);
      kernels_.multiply(task);
      void* out[kMaxTaskRows];
      for (int r = 0; r < block.count; ++r) {
        const int64_t index =
            block.tokens[r] * args_.out.stride + block.head * shape_.value + p * kPanel;
        out[r] = static_cast<char*>(args_.out.data) + index * bytes_of(args_.out.dtype);
      }
      finish(task, shape_.value - p * kPanel, args_.out.dtype == DType::kBF16, out);
    }
  }

  void finish(const PanelTask& task, int64_t columns, bool bf16, void* const* out) const {
    FinishTask finish;
    finish.rows = task.rows;
    finish.columns = static_cast<int>(std::min<int64_t>(kPanel, columns));
    finish.totals = task.totals;
    finish.out_is_bf16 = bf16;
    finish.out = out;
    kernels_.finish(finish);
  }

  // Results replace the latent queries.
  void attend() {
    AttentionJob job;
    job.batch = args_.batch;
    job.first_token = first_;
    job.end_token = end_;
    job.is_mla = true;
    job.cache = args_.cache;
    job.scale = args_.scale;
    job.heads = shape_.heads;
    job.dims = static_cast<int32_t>(width_);
    job.value_dims = shape_.latent;
    job.q = {latent_, DType::kF32, shape_.heads * width_, shape_.heads * width_};
    job.q_first_token = first_;
    job.out = job.q;
    job.out_first_token = first_;
    job.out_head_columns = static_cast<int32_t>(width_);
    run_attention(context_, job);
  }

  RunContext& context_;
  const MicroKernels& kernels_;
  const MlaAttendArgs& args_;
  const MlaShape shape_;
  const MlaLayout layout_;
  const int64_t width_;
  int32_t first_ = 0;  // rows of the batch in this turn
  int32_t end_ = 0;
  int32_t* rows_ = nullptr;  // those of them that are absorbed
  int64_t row_count_ = 0;
  float* latent_ = nullptr;  // [turn][heads][latent + rope]
  float* panels_ = nullptr;
};

void attend_expanded(RunContext& context, const MlaAttendArgs& args) {
  const MlaShape& shape = args.weights->shape;
  AttentionJob job;
  job.batch = args.batch;
  job.end_token = args.batch.tokens;
  job.form = MlaForm::kExpanded;
  job.is_mla = true;
  job.cache = args.cache;
  job.scale = args.scale;
  job.heads = shape.heads;
  job.dims = shape.nope + shape.rope;
  job.value_dims = shape.value;
  job.q = args.q;
  job.out = args.out;
  job.out_head_columns = shape.value;
  job.expand = args.weights;
  run_attention(context, job);
}

}  // namespace

void CpuOperators::mla_attend(RunContext& context, const MlaAttendArgs& args) {
  AbsorbedRun(context, args).run();
  if (!context.failed()) attend_expanded(context, args);
}

}  // namespace tandem::kernels::cpu
