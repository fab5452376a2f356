#include "kernels/reference/reference_device.h"
#include "kernels/reference/values.h"

namespace tandem::kernels {

void ReferenceOperators::embed(RunContext& context, const EmbedArgs& args) {
  const int64_t vocabulary = args.table.shape[0];
  const int64_t hidden = args.table.shape[1];
  for (int64_t t = 0; t < args.tokens; ++t) {
    int32_t id = args.ids[t];
    if (id < 0 && args.previous_ids) id = args.previous_ids[~id];
    if (id < 0 || id >= vocabulary) {
      return context.fail(ErrorCode::kInternal, "embed: id {} in row {}", id, t);
    }
    for (int64_t i = 0; i < hidden; ++i) {
      store(args.out, t, i, load_value(args.table.dtype, args.table.data, id * hidden + i));
    }
  }
}

}  // namespace tandem::kernels
