#include <algorithm>

#include "kernels/cpu/common/packed_layout.h"

namespace tandem::kernels::cpu {
namespace {

// Scratch for the rows of all (token, slot) pairs that are in work at once; more tokens go in
// turns.
constexpr int64_t kMaxPairBytes = int64_t{256} << 20;

// Pairs [first, first + rows) of the order belong to one expert.
struct Job {
  int32_t expert;
  int32_t first;
  int32_t rows;
};

class ExpertsRun {
 public:
  ExpertsRun(RunContext& context, const ExpertsArgs& args)
      : context_(context),
        kernels_(kernels_of(context)),
        args_(args),
        hidden_(args.experts->gate_up[0].k),
        intermediate_(args.experts->down[0].k) {
    const int64_t inner_bytes = intermediate_ * bytes_of(args.x.dtype);
    const int64_t token_bytes = args.top_k * (inner_bytes + hidden_ * int64_t{sizeof(float)});
    turn_tokens_ = std::clamp<int64_t>(kMaxPairBytes / token_bytes, 1, args.tokens);
    const auto pairs = static_cast<size_t>(turn_tokens_ * args.top_k);
    const auto experts = static_cast<size_t>(args.experts->count);
    first_pair_ = context.scratch<int32_t>(experts + 1);
    order_ = context.scratch<int32_t>(pairs);
    jobs_ = context.scratch<Job>(pairs);
    inner_ = context.scratch<char>(pairs * static_cast<size_t>(inner_bytes));
    down_ = context.scratch<float>(pairs * static_cast<size_t>(hidden_));
    panels_ =
        context.scratch<float>(static_cast<size_t>(PanelScratch::kFloats * team_size(context)));
  }

  void run() {
    for (first_token_ = 0; first_token_ < args_.tokens; first_token_ += turn_tokens_) {
      tokens_ = std::min(turn_tokens_, args_.tokens - first_token_);
      if (!sort_pairs()) return;
      run_jobs(divide_up(intermediate_, kPanel), 2 * hidden_ * intermediate_, &ExpertsRun::gate_up);
      run_jobs(divide_up(hidden_, 2 * kPanel), hidden_ * intermediate_, &ExpertsRun::down);
      share_out(context_,
                tokens_,
                1,
                tokens_ * args_.top_k * hidden_ * kWorkOfMove,
                [this](int64_t begin, int64_t end, int) {
                  for (int64_t t = begin; t < end; ++t) sum_slots(t);
                });
    }
  }

 private:
  // Counting sort of the pairs by expert, pairs of one expert in order; then the jobs.
  bool sort_pairs() {
    const int64_t pairs = tokens_ * args_.top_k;
    const int32_t* ids = args_.expert_ids + first_token_ * args_.top_k;
    const int32_t count = args_.experts->count;
    std::fill_n(first_pair_, count + 1, 0);
    for (int64_t p = 0; p < pairs; ++p) {
      if (ids[p] < 0 || ids[p] >= count) {
        context_.fail(ErrorCode::kInternal, "experts: expert {} of {}", ids[p], count);
        return false;
      }
      ++first_pair_[ids[p] + 1];
    }
    for (int32_t e = 0; e < count; ++e) first_pair_[e + 1] += first_pair_[e];
    job_count_ = 0;
    for (int32_t e = 0; e < count; ++e) add_jobs(e, first_pair_[e], first_pair_[e + 1]);
    for (int64_t p = 0; p < pairs; ++p) order_[first_pair_[ids[p]]++] = static_cast<int32_t>(p);
    return true;
  }

  void add_jobs(int32_t expert, int32_t begin, int32_t end) {
    if (begin == end) return;
    const auto blocks = static_cast<int32_t>(divide_up(end - begin, kMaxTaskRows));
    const auto rows = static_cast<int32_t>(divide_up(end - begin, blocks));
    for (int32_t first = begin; first < end; first += rows) {
      jobs_[job_count_++] = {expert, first, std::min(rows, end - first)};
    }
  }

  using Task = void (ExpertsRun::*)(const Job&, int64_t unit, const PanelScratch&);
  void run_jobs(int64_t units, int64_t work_a_pair, Task task) {
    share_out(context_,
              job_count_ * units,
              1,
              tokens_ * args_.top_k * work_a_pair,
              [&](int64_t begin, int64_t end, int member) {
                const PanelScratch scratch(panels_ + member * PanelScratch::kFloats);
                for (int64_t i = begin; i < end; ++i) {
                  (this->*task)(jobs_[i / units], i % units, scratch);
                }
              });
  }

  PanelTask panel_task(const Job& job, int64_t k, const void** x, const PanelScratch& scratch) {
    PanelTask task;
    task.rows = job.rows;
    task.k = k;
    task.x = x;
    task.x_is_bf16 = args_.x.dtype == DType::kBF16;
    task.totals = scratch.totals;
    task.x_scratch = scratch.x;
    task.w_scratch = scratch.w;
    return task;
  }

  char* inner_row(int64_t pair) const {
    return inner_ + pair * intermediate_ * bytes_of(args_.x.dtype);
  }

  void gate_up(const Job& job, int64_t panel, const PanelScratch& scratch) {
    const void* x[kMaxTaskRows];
    void* out[kMaxTaskRows];
    const int64_t size = bytes_of(args_.x.dtype);
    for (int r = 0; r < job.rows; ++r) {
      const int32_t pair = order_[job.first + r];
      const int64_t token = first_token_ + pair / args_.top_k;
      x[r] = static_cast<const char*>(args_.x.data) + token * args_.x.stride * size;
      out[r] = inner_row(pair) + panel * kPanel * size;
    }
    const PackedWeight& weight = args_.experts->gate_up[job.expert];
    PanelTask task = panel_task(job, hidden_, x, scratch);
    task.panels = 2;
    for (int p = 0; p < 2; ++p) task.panel[p] = panel_of(weight.parts[p], hidden_, panel);
    kernels_.multiply(task);
    FinishTask finish;
    finish.rows = job.rows;
    finish.columns = static_cast<int>(std::min<int64_t>(kPanel, intermediate_ - panel * kPanel));
    finish.totals = scratch.totals;
    finish.finish = Finish::kSiluMul;
    finish.out_is_bf16 = task.x_is_bf16;
    finish.out = out;
    kernels_.finish(finish);
  }

  // Two panels of the hidden size.
  void down(const Job& job, int64_t unit, const PanelScratch& scratch) {
    const void* x[kMaxTaskRows];
    for (int r = 0; r < job.rows; ++r) x[r] = inner_row(order_[job.first + r]);
    const PackedPart& part = args_.experts->down[job.expert].parts[0];
    PanelTask task = panel_task(job, intermediate_, x, scratch);
    const int64_t panel = 2 * unit;
    task.panels = static_cast<int>(std::min<int64_t>(2, divide_up(hidden_, kPanel) - panel));
    for (int p = 0; p < task.panels; ++p) {
      task.panel[p] = panel_of(part, intermediate_, panel + p);
    }
    kernels_.multiply(task);
    for (int p = 0; p < task.panels; ++p) {
      const int64_t column = (panel + p) * kPanel;
      void* out[kMaxTaskRows];
      for (int r = 0; r < job.rows; ++r) {
        out[r] = down_ + order_[job.first + r] * hidden_ + column;
      }
      FinishTask finish;
      finish.rows = job.rows;
      finish.columns = static_cast<int>(std::min<int64_t>(kPanel, hidden_ - column));
      finish.totals = scratch.totals + int64_t{p} * job.rows * kPanel;
      finish.out = out;
      kernels_.finish(finish);
    }
  }

  void sum_slots(int64_t token) {
    constexpr int32_t kFew = 64;
    const int64_t pair = token * args_.top_k;
    const float* weights = args_.weights + (first_token_ + token) * args_.top_k;
    float* out = args_.out.row<float>(first_token_ + token);
    const float* rows[kFew];
    for (int32_t s0 = 0; s0 < args_.top_k; s0 += kFew) {
      const int32_t count = std::min(kFew, args_.top_k - s0);
      for (int32_t s = 0; s < count; ++s) rows[s] = down_ + (pair + s0 + s) * hidden_;
      kernels_.weighted_sum(rows, weights + s0, count, hidden_, s0 > 0, out);
    }
  }

  RunContext& context_;
  const MicroKernels& kernels_;
  const ExpertsArgs& args_;
  const int64_t hidden_;
  const int64_t intermediate_;
  int64_t turn_tokens_ = 0;
  int64_t first_token_ = 0;  // of this turn
  int64_t tokens_ = 0;
  int64_t job_count_ = 0;
  int32_t* first_pair_ = nullptr;  // [experts + 1]
  int32_t* order_ = nullptr;       // [pairs] by expert
  Job* jobs_ = nullptr;
  char* inner_ = nullptr;    // [pairs, intermediate] A
  float* down_ = nullptr;    // [pairs, hidden]
  float* panels_ = nullptr;  // PanelScratch of each member
};

}  // namespace

void CpuOperators::experts(RunContext& context, const ExpertsArgs& args) {
  for (int32_t e = 0; e < args.experts->count; ++e) {
    if (args.experts->down[e].part_count != 1) {
      return context.fail(
          ErrorCode::kUnsupported, "experts: down of expert {} comes in several parts", e);
    }
  }
  ExpertsRun(context, args).run();
}

}  // namespace tandem::kernels::cpu
