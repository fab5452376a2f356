// Operators that treat each row by itself: embed, rms_norm, rope_append, mla_rope_append,
// gather_rows.

#include <algorithm>
#include <cstring>

#include "kernels/cpu/common/cpu_device.h"
#include "kernels/reference/append.h"
#include "kernels/reference/values.h"

namespace tandem::kernels::cpu {
namespace {

// Calls function(row) for each of `rows` rows of about `width` floats.
template <class Function>
void for_rows(RunContext& context, int64_t rows, int64_t width, Function function) {
  const int64_t grain = std::max<int64_t>(1, 8192 / std::max<int64_t>(width, 1));
  share_out(context, rows, grain, rows * width * kWorkOfMove, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) function(r);
  });
}

void store_row(
    const MicroKernels& kernels, DType type, const float* in, void* out, int64_t index, int64_t n) {
  if (type == DType::kBF16) {
    kernels.narrow_bf16(in, static_cast<uint16_t*>(out) + index, n);
  } else {
    std::memcpy(static_cast<float*>(out) + index, in, static_cast<size_t>(n) * sizeof(float));
  }
}

void normalize(const MicroKernels& kernels, float* x, const float* weight, int64_t n, float eps) {
  NormTask task;
  task.n = n;
  task.x = x;
  task.weight = weight;
  task.eps = eps;
  task.out = x;
  kernels.rms_norm(task);
}

void rotate_row(const MicroKernels& kernels, const RopeTable& rope, int64_t position, float* x) {
  RotateTask task;
  task.rotary = rope.rotary;
  task.interleaved = rope.interleaved;
  task.cos = rope.cos + position * (rope.rotary / 2);
  task.sin = rope.sin + position * (rope.rotary / 2);
  task.x = x;
  kernels.rotate(task);
}

// Scratch of `width` floats for each member.
float* member_rows(RunContext& context, int64_t width) {
  return context.scratch<float>(static_cast<size_t>(round_up(width, 16) * team_size(context)));
}

class RopeRow {
 public:
  RopeRow(const MicroKernels& kernels, const RopeAppendArgs& args)
      : kernels_(kernels), args_(args), dim_(args.cache.head_dim) {}

  void run(int64_t t, float* head) const {
    const int64_t slot = args_.batch.slots[t];
    for (int64_t h = 0; h < args_.heads; ++h) {
      prepare(t, h, args_.q_norm, head);
      store_row(kernels_, args_.q.dtype, head, args_.q.data, t * args_.q.stride + h * dim_, dim_);
    }
    if (slot < 0) return;
    const KvLayer& cache = args_.cache;
    for (int64_t h = 0; h < cache.kv_heads; ++h) {
      prepare(t, args_.heads + h, args_.k_norm, head);
      void* key = cache_row(cache, slot / kBlockTokens, slot % kBlockTokens, h);
      store_row(kernels_, cache.dtype, head, key, 0, dim_);
      const float* value = args_.qkv.row<float>(t) + (args_.heads + cache.kv_heads + h) * dim_;
      void* out = cache_row(cache, slot / kBlockTokens, slot % kBlockTokens, cache.kv_heads + h);
      store_row(kernels_, cache.dtype, value, out, 0, dim_);
    }
  }

 private:
  void prepare(int64_t t, int64_t h, const float* norm, float* head) const {
    std::copy_n(args_.qkv.row<float>(t) + h * dim_, dim_, head);
    if (norm) normalize(kernels_, head, norm, dim_, args_.eps);
    rotate_row(kernels_, args_.rope, args_.batch.positions[t], head);
  }

  const MicroKernels& kernels_;
  const RopeAppendArgs& args_;
  const int64_t dim_;
};

void run_mla_row(const MicroKernels& kernels,
                 const MlaRopeAppendArgs& args,
                 int64_t t,
                 float* row) {
  const MlaShape& shape = args.shape;
  const int64_t head_width = shape.nope + shape.rope;
  const int64_t position = args.batch.positions[t];
  for (int64_t h = 0; h < shape.heads; ++h) {
    std::copy_n(args.q.row<float>(t) + h * head_width, head_width, row);
    rotate_row(kernels, args.rope, position, row + shape.nope);
    const int64_t index = t * args.q_out.stride + h * head_width;
    store_row(kernels, args.q_out.dtype, row, args.q_out.data, index, head_width);
  }
  const int64_t slot = args.batch.slots[t];
  if (slot < 0) return;
  std::copy_n(args.kv.row<float>(t), shape.latent + shape.rope, row);
  normalize(kernels, row, args.latent_norm, shape.latent, args.eps);
  rotate_row(kernels, args.rope, position, row + shape.latent);
  void* cached = cache_row(args.cache, slot / kBlockTokens, slot % kBlockTokens, 0);
  store_row(kernels, args.cache.dtype, row, cached, 0, shape.latent + shape.rope);
}

bool check_rows(RunContext& context, const RaggedBatch& batch) {
  for (int64_t t = 0; t < batch.tokens; ++t) {
    if (!check_append(context, batch, t)) return false;
  }
  return true;
}

}  // namespace

void CpuOperators::embed(RunContext& context, const EmbedArgs& args) {
  const MicroKernels& kernels = kernels_of(context);
  const int64_t vocabulary = args.table.shape[0];
  const int64_t hidden = args.table.shape[1];
  for_rows(context, args.tokens, hidden, [&](int64_t t) {
    int32_t id = args.ids[t];
    if (id < 0 && args.previous_ids) id = args.previous_ids[~id];
    if (id < 0 || id >= vocabulary) {
      return context.fail(ErrorCode::kInternal, "embed: id {} in row {}", id, t);
    }
    float* out = args.out.row<float>(t);
    switch (args.table.dtype) {
      case DType::kBF16:
        return kernels.widen_bf16(args.table.as<uint16_t>() + id * hidden, out, hidden);
      case DType::kF16:
        return kernels.widen_f16(args.table.as<uint16_t>() + id * hidden, out, hidden);
      default:
        std::copy_n(args.table.as<float>() + id * hidden, hidden, out);
    }
  });
}

void CpuOperators::rms_norm(RunContext& context, const RmsNormArgs& args) {
  const MicroKernels& kernels = kernels_of(context);
  for_rows(context, args.tokens, args.x.columns, [&](int64_t t) {
    NormTask task;
    task.n = args.x.columns;
    task.x = args.x.row<float>(t);
    task.delta = args.delta.data ? args.delta.row<float>(t) : nullptr;
    task.weight = args.weight;
    task.eps = args.eps;
    task.out_is_bf16 = args.out.dtype == DType::kBF16;
    if (args.out.data) {
      task.out = task.out_is_bf16 ? static_cast<void*>(args.out.row<uint16_t>(t))
                                  : static_cast<void*>(args.out.row<float>(t));
    }
    kernels.rms_norm(task);
  });
}

void CpuOperators::rope_append(RunContext& context, const RopeAppendArgs& args) {
  if (!check_rows(context, args.batch)) return;
  const RopeRow row(kernels_of(context), args);
  const int64_t width = round_up(args.cache.head_dim, 16);
  float* heads = member_rows(context, width);
  share_out(context,
            args.batch.tokens,
            1,
            args.batch.tokens * args.qkv.columns * kWorkOfMove,
            [&](int64_t begin, int64_t end, int member) {
              for (int64_t t = begin; t < end; ++t) row.run(t, heads + member * width);
            });
}

void CpuOperators::mla_rope_append(RunContext& context, const MlaRopeAppendArgs& args) {
  if (!check_rows(context, args.batch)) return;
  const MlaShape& shape = args.shape;
  const int64_t width = round_up(std::max(shape.nope, shape.latent) + shape.rope, 16);
  float* rows = member_rows(context, width);
  share_out(context,
            args.batch.tokens,
            1,
            args.batch.tokens * args.q.columns * kWorkOfMove,
            [&](int64_t begin, int64_t end, int member) {
              for (int64_t t = begin; t < end; ++t) {
                run_mla_row(kernels_of(context), args, t, rows + member * width);
              }
            });
}

void CpuOperators::gather_rows(RunContext& context, const GatherRowsArgs& args) {
  const int64_t size = bytes_of(args.source.dtype);
  for_rows(context, args.count, args.source.columns, [&](int64_t i) {
    const int32_t row = args.rows[i];
    if (row < 0) return context.fail(ErrorCode::kInternal, "gather_rows: row {}", row);
    std::memcpy(static_cast<char*>(args.out.data) + i * args.out.stride * size,
                static_cast<const char*>(args.source.data) + row * args.source.stride * size,
                static_cast<size_t>(args.source.columns * size));
  });
}

}  // namespace tandem::kernels::cpu
