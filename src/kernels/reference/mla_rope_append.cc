#include "kernels/reference/append.h"
#include "kernels/reference/math.h"
#include "kernels/reference/reference_device.h"
#include "kernels/reference/values.h"

namespace tandem::kernels {

void ReferenceOperators::mla_rope_append(RunContext& context, const MlaRopeAppendArgs& args) {
  const MlaShape& shape = args.shape;
  const int64_t head_width = shape.nope + shape.rope;
  const int64_t row_width = shape.latent + shape.rope;
  auto* head = context.scratch<float>(static_cast<size_t>(head_width));
  auto* row = context.scratch<float>(static_cast<size_t>(row_width));
  for (int64_t t = 0; t < args.batch.tokens; ++t) {
    if (!check_append(context, args.batch, t)) return;
    const int64_t position = args.batch.positions[t];
    const int64_t slot = args.batch.slots[t];

    for (int64_t h = 0; h < shape.heads; ++h) {
      load_row(args.q.slice(h * head_width, head_width), t, head);
      rotate(head + shape.nope, args.rope, position);
      for (int64_t i = 0; i < head_width; ++i) store(args.q_out, t, h * head_width + i, head[i]);
    }
    if (slot < 0) continue;
    load_row(args.kv, t, row);
    rms_normalize(row, args.latent_norm, shape.latent, args.eps);
    rotate(row + shape.latent, args.rope, position);
    void* cached = cache_row(args.cache, slot / kBlockTokens, slot % kBlockTokens, 0);
    for (int64_t i = 0; i < row_width; ++i) store_value(args.cache.dtype, cached, i, row[i]);
  }
}

}  // namespace tandem::kernels
