#include "kernels/reference/math.h"
#include "kernels/reference/reference_device.h"
#include "kernels/reference/softmax_attention.h"
#include "kernels/reference/values.h"

namespace tandem::kernels {
namespace {

// float32 copies of what one head needs, for one sequence.
struct MlaScratch {
  float* rows;    // [context, latent + rope]: the cache
  float* uk;      // [nope, latent] of this head
  float* uv;      // [value, latent]
  float* keys;    // [context, nope], expanded form
  float* values;  // [context, value], expanded form
  float* query;   // [nope + rope]
  float* q_latent;
  float* result;  // [max(latent, value)]
  SoftmaxScratch softmax;
};

MlaScratch make_scratch(RunContext& context, const MlaShape& shape, int64_t longest) {
  const auto floats = [&](int64_t count) {
    return context.scratch<float>(static_cast<size_t>(count));
  };
  const int64_t widest = std::max(shape.latent, shape.value);
  MlaScratch scratch;
  scratch.rows = floats(longest * (shape.latent + shape.rope));
  scratch.uk = floats(int64_t{shape.nope} * shape.latent);
  scratch.uv = floats(int64_t{shape.value} * shape.latent);
  scratch.keys = floats(longest * shape.nope);
  scratch.values = floats(longest * shape.value);
  scratch.query = floats(shape.nope + shape.rope);
  scratch.q_latent = floats(shape.latent);
  scratch.result = floats(widest);
  scratch.softmax = {floats(kAttentionSplit), floats(widest)};
  return scratch;
}

void load_head(const MlaWeights& weights, int64_t head, const MlaScratch& scratch) {
  const int64_t uk = int64_t{weights.shape.nope} * weights.shape.latent;
  const int64_t uv = int64_t{weights.shape.value} * weights.shape.latent;
  for (int64_t i = 0; i < uk; ++i) {
    scratch.uk[i] = load_value(weights.dtype, weights.uk, head * uk + i);
  }
  for (int64_t i = 0; i < uv; ++i) {
    scratch.uv[i] = load_value(weights.dtype, weights.uv, head * uv + i);
  }
}

// One row, queries moved into the latent space. Writes scratch.result [value].
void absorbed_row(const MlaAttendArgs& args, int64_t context, const MlaScratch& s) {
  const MlaShape& shape = args.weights->shape;
  const int64_t width = shape.latent + shape.rope;
  std::fill_n(s.q_latent, shape.latent, 0.0f);
  for (int64_t d = 0; d < shape.nope; ++d) {
    add_scaled(s.query[d], s.uk + d * shape.latent, shape.latent, s.q_latent);
  }
  const auto score = [&](int64_t p) {
    const float* row = s.rows + p * width;
    return args.scale * (dot(s.q_latent, row, shape.latent) +
                         dot(s.query + shape.nope, row + shape.latent, shape.rope));
  };
  const auto value = [&](int64_t p) { return s.rows + p * width; };
  softmax_attention(context, shape.latent, score, value, s.softmax, s.result);
  for (int64_t v = 0; v < shape.value; ++v) {
    s.softmax.part[v] = dot(s.uv + v * shape.latent, s.result, shape.latent);
  }
  std::copy_n(s.softmax.part, shape.value, s.result);
}

// Keys and values of the whole context for this head.
void expand_context(const MlaShape& shape, int64_t context, const MlaScratch& s) {
  const int64_t width = shape.latent + shape.rope;
  for (int64_t p = 0; p < context; ++p) {
    const float* latent = s.rows + p * width;
    for (int64_t d = 0; d < shape.nope; ++d) {
      s.keys[p * shape.nope + d] = dot(s.uk + d * shape.latent, latent, shape.latent);
    }
    for (int64_t v = 0; v < shape.value; ++v) {
      s.values[p * shape.value + v] = dot(s.uv + v * shape.latent, latent, shape.latent);
    }
  }
}

// One row over expanded keys and values. Writes scratch.result [value].
void expanded_row(const MlaAttendArgs& args, int64_t context, const MlaScratch& s) {
  const MlaShape& shape = args.weights->shape;
  const int64_t width = shape.latent + shape.rope;
  const auto score = [&](int64_t p) {
    const float* rotary = s.rows + p * width + shape.latent;
    return args.scale * (dot(s.query, s.keys + p * shape.nope, shape.nope) +
                         dot(s.query + shape.nope, rotary, shape.rope));
  };
  const auto value = [&](int64_t p) { return s.values + p * shape.value; };
  softmax_attention(context, shape.value, score, value, s.softmax, s.result);
}

}  // namespace

void ReferenceOperators::mla_attend(RunContext& context, const MlaAttendArgs& args) {
  const MlaShape& shape = args.weights->shape;
  const int64_t width = shape.latent + shape.rope;
  const int64_t head_width = shape.nope + shape.rope;
  const MlaScratch scratch = make_scratch(context, shape, longest_context(args.batch));
  for (int32_t i = 0; i < args.batch.segment_count; ++i) {
    const Segment& segment = args.batch.segments[i];
    const RowsView rows{scratch.rows, DType::kF32, width, width};
    if (!gather_context(context, args.batch, segment, args.cache, 0, rows)) return;
    const int64_t end = int64_t{segment.first_position} + segment.rows;
    for (int64_t h = 0; h < shape.heads; ++h) {
      load_head(*args.weights, h, scratch);
      const bool expanded = segment.form == MlaForm::kExpanded;
      if (expanded) expand_context(shape, end, scratch);
      for (int64_t r = 0; r < segment.rows; ++r) {
        const int64_t t = segment.first_row + r;
        load_row(args.q.slice(h * head_width, head_width), t, scratch.query);
        const int64_t visible = int64_t{segment.first_position} + r + 1;
        (expanded ? expanded_row : absorbed_row)(args, visible, scratch);
        for (int64_t v = 0; v < shape.value; ++v) {
          store(args.out, t, h * shape.value + v, scratch.result[v]);
        }
      }
    }
  }
}

}  // namespace tandem::kernels
