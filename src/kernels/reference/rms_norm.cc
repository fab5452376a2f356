#include "kernels/reference/math.h"
#include "kernels/reference/reference_device.h"
#include "kernels/reference/values.h"

namespace tandem::kernels {

void ReferenceOperators::rms_norm(RunContext& context, const RmsNormArgs& args) {
  const int64_t n = args.x.columns;
  auto* row = context.scratch<float>(static_cast<size_t>(n));
  for (int64_t t = 0; t < args.tokens; ++t) {
    load_row(args.x, t, row);
    if (args.delta.data) {
      for (int64_t i = 0; i < n; ++i) row[i] += load(args.delta, t, i);
      for (int64_t i = 0; i < n; ++i) store(args.x, t, i, row[i]);
    }
    if (!args.out.data) continue;
    rms_normalize(row, args.weight, n, args.eps);
    for (int64_t i = 0; i < n; ++i) store(args.out, t, i, row[i]);
  }
}

}  // namespace tandem::kernels
