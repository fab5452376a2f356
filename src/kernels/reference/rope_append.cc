#include "kernels/reference/append.h"
#include "kernels/reference/math.h"
#include "kernels/reference/reference_device.h"
#include "kernels/reference/values.h"

namespace tandem::kernels {

void ReferenceOperators::rope_append(RunContext& context, const RopeAppendArgs& args) {
  const KvLayer& cache = args.cache;
  const int64_t dim = cache.head_dim;
  auto* head = context.scratch<float>(static_cast<size_t>(dim));
  for (int64_t t = 0; t < args.batch.tokens; ++t) {
    if (!check_append(context, args.batch, t)) return;
    const int64_t position = args.batch.positions[t];
    const int64_t slot = args.batch.slots[t];
    const int64_t block = slot / kBlockTokens;
    const int64_t token = slot % kBlockTokens;

    for (int64_t h = 0; h < args.heads; ++h) {
      load_row(args.qkv.slice(h * dim, dim), t, head);
      if (args.q_norm) rms_normalize(head, args.q_norm, dim, args.eps);
      rotate(head, args.rope, position);
      for (int64_t i = 0; i < dim; ++i) store(args.q, t, h * dim + i, head[i]);
    }
    if (slot < 0) continue;
    for (int64_t h = 0; h < cache.kv_heads; ++h) {
      load_row(args.qkv.slice((args.heads + h) * dim, dim), t, head);
      if (args.k_norm) rms_normalize(head, args.k_norm, dim, args.eps);
      rotate(head, args.rope, position);
      void* key = cache_row(cache, block, token, h);
      for (int64_t i = 0; i < dim; ++i) store_value(cache.dtype, key, i, head[i]);

      load_row(args.qkv.slice((args.heads + cache.kv_heads + h) * dim, dim), t, head);
      void* value = cache_row(cache, block, token, cache.kv_heads + h);
      for (int64_t i = 0; i < dim; ++i) store_value(cache.dtype, value, i, head[i]);
    }
  }
}

}  // namespace tandem::kernels
