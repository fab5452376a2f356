#include <algorithm>

#include "kernels/reference/math.h"
#include "kernels/reference/packed_rows.h"
#include "kernels/reference/reference_device.h"
#include "kernels/reference/values.h"

namespace tandem::kernels {

void ReferenceOperators::experts(RunContext& context, const ExpertsArgs& args) {
  const PackedExperts& experts = *args.experts;
  const int64_t hidden = experts.gate_up[0].k;
  const int64_t intermediate = experts.down[0].k;
  auto* x = context.scratch<float>(static_cast<size_t>(hidden));
  auto* gate_up = context.scratch<float>(static_cast<size_t>(2 * intermediate));
  auto* down = context.scratch<float>(static_cast<size_t>(hidden));
  auto* total = context.scratch<float>(static_cast<size_t>(hidden));
  auto* row = context.scratch<float>(static_cast<size_t>(std::max(hidden, intermediate)));

  for (int64_t t = 0; t < args.tokens; ++t) {
    load_row(args.x, t, x);
    std::fill_n(total, hidden, 0.0f);
    for (int64_t s = 0; s < args.top_k; ++s) {
      const int32_t expert = args.expert_ids[t * args.top_k + s];
      if (expert < 0 || expert >= experts.count) {
        return context.fail(
            ErrorCode::kInternal, "experts: expert {} of {}", expert, experts.count);
      }
      multiply(experts.gate_up[expert], x, 1, row, gate_up);
      for (int64_t i = 0; i < intermediate; ++i) {
        gate_up[i] = round_to(args.x.dtype, silu(gate_up[i]) * gate_up[intermediate + i]);
      }
      multiply(experts.down[expert], gate_up, 1, row, down);
      const float weight = args.weights[t * args.top_k + s];
      add_scaled(weight, down, hidden, total);
    }
    for (int64_t i = 0; i < hidden; ++i) store(args.out, t, i, total[i]);
  }
}

}  // namespace tandem::kernels
