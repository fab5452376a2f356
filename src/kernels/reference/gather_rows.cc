#include "kernels/reference/reference_device.h"
#include "kernels/reference/values.h"

namespace tandem::kernels {

void ReferenceOperators::gather_rows(RunContext& context, const GatherRowsArgs& args) {
  for (int64_t i = 0; i < args.count; ++i) {
    const int32_t row = args.rows[i];
    if (row < 0) return context.fail(ErrorCode::kInternal, "gather_rows: row {}", row);
    for (int64_t c = 0; c < args.source.columns; ++c) {
      store(args.out, i, c, load(args.source, row, c));
    }
  }
}

}  // namespace tandem::kernels
