#include "kernels/reference/math.h"
#include "kernels/reference/reference_device.h"
#include "kernels/reference/softmax_attention.h"
#include "kernels/reference/values.h"

namespace tandem::kernels {
namespace {

struct AttendScratch {
  float* keys;    // [context, dim]
  float* values;  // [context, dim]
  float* query;   // [dim]
  float* result;  // [dim]
  SoftmaxScratch softmax;
};

// All rows of a segment for one query head, over keys and values of its kv head.
void attend_head(const AttendArgs& args,
                 const Segment& segment,
                 int64_t head,
                 const AttendScratch& scratch) {
  const int64_t dim = args.cache.head_dim;
  for (int64_t r = 0; r < segment.rows; ++r) {
    const int64_t t = segment.first_row + r;
    load_row(args.q.slice(head * dim, dim), t, scratch.query);
    softmax_attention(
        int64_t{segment.first_position} + r + 1,
        dim,
        [&](int64_t p) { return args.scale * dot(scratch.query, scratch.keys + p * dim, dim); },
        [&](int64_t p) { return scratch.values + p * dim; },
        scratch.softmax,
        scratch.result);
    for (int64_t i = 0; i < dim; ++i) store(args.out, t, head * dim + i, scratch.result[i]);
  }
}

}  // namespace

void ReferenceOperators::attend(RunContext& context, const AttendArgs& args) {
  const int64_t dim = args.cache.head_dim;
  const auto all = static_cast<size_t>(longest_context(args.batch) * dim);
  const auto width = static_cast<size_t>(dim);
  const AttendScratch scratch{
      context.scratch<float>(all),
      context.scratch<float>(all),
      context.scratch<float>(width),
      context.scratch<float>(width),
      {context.scratch<float>(kAttentionSplit), context.scratch<float>(width)}};
  const int64_t group = args.heads / args.cache.kv_heads;
  for (int32_t s = 0; s < args.batch.segment_count; ++s) {
    const Segment& segment = args.batch.segments[s];
    for (int64_t kv = 0; kv < args.cache.kv_heads; ++kv) {
      const RowsView keys{scratch.keys, DType::kF32, dim, dim};
      const RowsView values{scratch.values, DType::kF32, dim, dim};
      if (!gather_context(context, args.batch, segment, args.cache, kv, keys)) return;
      const int64_t value_row = args.cache.kv_heads + kv;
      if (!gather_context(context, args.batch, segment, args.cache, value_row, values)) return;
      for (int64_t h = kv * group; h < (kv + 1) * group; ++h) {
        attend_head(args, segment, h, scratch);
      }
    }
  }
}

}  // namespace tandem::kernels
