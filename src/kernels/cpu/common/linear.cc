#include <algorithm>

#include "kernels/cpu/common/packed_layout.h"

namespace tandem::kernels::cpu {
namespace {

// Rows from which two panels share one widening of the activations.
constexpr int kRowsForPairs = 16;

// A run of panels that one task computes: one or two of a part, or a gate panel with its up panel.
struct Unit {
  const PackedPart* part;
  int64_t panel;
  int panels;
};

struct LinearPlan {
  int panels_a_unit = 1;
  int64_t units = 0;
  int64_t units_of_part[kMaxWeightParts] = {};
};

LinearPlan plan_of(const PackedWeight& weight, int rows_a_task, int members) {
  LinearPlan plan;
  const bool paired = weight.pairing == Pairing::kGateUp;
  const bool wide = !paired && rows_a_task >= kRowsForPairs &&
                    weight.n * rows_a_task >= int64_t{8} * kPanel * kMaxTaskRows * members;
  plan.panels_a_unit = wide ? 2 : 1;
  const int parts = paired ? 1 : weight.part_count;
  for (int i = 0; i < parts; ++i) {
    const int64_t panels = divide_up(weight.parts[i].columns, kPanel);
    plan.units_of_part[i] = divide_up(panels, plan.panels_a_unit);
    plan.units += plan.units_of_part[i];
  }
  return plan;
}

Unit unit_of(const PackedWeight& weight, const LinearPlan& plan, int64_t index) {
  int part = 0;
  while (index >= plan.units_of_part[part]) index -= plan.units_of_part[part++];
  const int64_t panel = index * plan.panels_a_unit;
  const int64_t panels = divide_up(weight.parts[part].columns, kPanel);
  return {&weight.parts[part],
          panel,
          static_cast<int>(std::min<int64_t>(plan.panels_a_unit, panels - panel))};
}

class LinearRun {
 public:
  LinearRun(const MicroKernels& kernels, const LinearArgs& args) : kernels_(kernels), args_(args) {}

  void run(const Unit& unit, int64_t row0, int rows, const PanelScratch& scratch) const {
    const void* x[kMaxTaskRows];
    const int64_t x_bytes = args_.x.stride * bytes_of(args_.x.dtype);
    for (int r = 0; r < rows; ++r) {
      x[r] = static_cast<const char*>(args_.x.data) + (row0 + r) * x_bytes;
    }
    const PackedWeight& weight = *args_.weight;
    const bool silu = args_.epilogue == Epilogue::kSiluMul;
    PanelTask task;
    task.rows = rows;
    task.k = weight.k;
    task.x = x;
    task.x_is_bf16 = args_.x.dtype == DType::kBF16;
    task.panels = silu ? 2 : unit.panels;
    for (int p = 0; p < task.panels; ++p) {
      task.panel[p] = silu ? panel_of(weight.parts[p], weight.k, unit.panel)
                           : panel_of(*unit.part, weight.k, unit.panel + p);
    }
    task.totals = scratch.totals;
    task.x_scratch = scratch.x;
    task.w_scratch = scratch.w;
    kernels_.multiply(task);
    for (int p = 0; p < unit.panels; ++p) finish(unit, p, row0, rows, scratch);
  }

 private:
  void finish(const Unit& unit, int p, int64_t row0, int rows, const PanelScratch& scratch) const {
    const int64_t column = (unit.panel + p) * kPanel;  // of the part
    void* out[kMaxTaskRows];
    const int64_t size = bytes_of(args_.out.dtype);
    for (int r = 0; r < rows; ++r) {
      out[r] = static_cast<char*>(args_.out.data) +
               ((row0 + r) * args_.out.stride + unit.part->first_column + column) * size;
    }
    FinishTask task;
    task.rows = rows;
    task.columns = static_cast<int>(std::min<int64_t>(kPanel, unit.part->columns - column));
    task.totals = scratch.totals + int64_t{p} * rows * kPanel;
    if (args_.bias) {
      task.bias = args_.bias + unit.part->first_column + column;
      task.bias_up = args_.bias + unit.part->columns + column;
    }
    switch (args_.epilogue) {
      case Epilogue::kNone:
        task.finish = Finish::kStore;
        break;
      case Epilogue::kAdd:
        task.finish = Finish::kAdd;
        break;
      case Epilogue::kSiluMul:
        task.finish = Finish::kSiluMul;
        break;
    }
    if (args_.epilogue != Epilogue::kSiluMul) task.bias_up = nullptr;
    task.out_is_bf16 = args_.out.dtype == DType::kBF16;
    task.out = out;
    kernels_.finish(task);
  }

  const MicroKernels& kernels_;
  const LinearArgs& args_;
};

}  // namespace

void CpuOperators::linear(RunContext& context, const LinearArgs& args) {
  const int64_t row_blocks = divide_up(args.tokens, kMaxTaskRows);
  const int rows_a_task = static_cast<int>(divide_up(args.tokens, row_blocks));
  const LinearPlan plan = plan_of(*args.weight, rows_a_task, team_size(context));
  float* scratch =
      context.scratch<float>(static_cast<size_t>(PanelScratch::kFloats * team_size(context)));
  const LinearRun run(kernels_of(context), args);
  const int64_t work = args.tokens * args.weight->n * args.weight->k;
  share_out(context, plan.units * row_blocks, 1, work, [&](int64_t begin, int64_t end, int member) {
    const PanelScratch mine(scratch + member * PanelScratch::kFloats);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row0 = i % row_blocks * rows_a_task;
      const int64_t rows = std::min<int64_t>(rows_a_task, args.tokens - row0);
      if (rows <= 0) continue;
      run.run(unit_of(*args.weight, plan, i / row_blocks), row0, static_cast<int>(rows), mine);
    }
  });
}

}  // namespace tandem::kernels::cpu
