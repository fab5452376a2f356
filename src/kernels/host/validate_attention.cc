#include "kernels/host/checker.h"
#include "kernels/host/validate.h"

namespace tandem::kernels {
namespace {

void check_segments(Checker& check, const RaggedBatch& batch, bool needs_blocks) {
  int32_t next_row = 0;
  for (int32_t i = 0; i < batch.segment_count && check.good(); ++i) {
    const Segment& segment = batch.host_segments[i];
    check.require(segment.first_row == next_row, "segment {} starts at row {}", i, next_row);
    check.require(segment.rows > 0 && segment.rows <= batch.tokens - next_row,
                  "segment {} has {} rows",
                  i,
                  segment.rows);
    check.require(segment.sequence >= 0, "segment {} has sequence {}", i, segment.sequence);
    check.require(segment.first_position >= 0, "segment {} has a negative position", i);
    check.require(segment.form == MlaForm::kAbsorbed || segment.form == MlaForm::kExpanded,
                  "segment {} has an unknown form",
                  i);
    const int64_t end = int64_t{segment.first_position} + segment.rows;
    check.require(!needs_blocks || end <= int64_t{batch.block_table_stride} * kBlockTokens,
                  "segment {} reaches position {}, beyond its block table",
                  i,
                  end);
    next_row += segment.rows;
  }
  check.require(next_row == batch.tokens, "segments cover {} of {} rows", next_row, batch.tokens);
}

void check_batch(Checker& check, const RaggedBatch& batch, bool attends) {
  check.require(batch.tokens >= 0 && batch.segment_count >= 0, "negative count");
  if (batch.tokens == 0) return;
  check.require(batch.segments && batch.host_segments, "segments or host_segments is null");
  check.require(batch.positions != nullptr, "positions is null");
  check.require(attends || batch.slots != nullptr, "slots is null");
  check.require(!attends || batch.block_table != nullptr, "block_table is null");
  if (check.good()) check_segments(check, batch, attends);
}

// `row_values` values a row, `rows_per_token` rows for each token of a block.
void check_cache(Checker& check, const KvLayer& cache, int64_t row_values, int64_t rows_per_token) {
  check.require(cache.base != nullptr, "cache is null");
  check.require(cache.dtype == DType::kF32 || cache.dtype == DType::kBF16,
                "cache is {}",
                to_string(cache.dtype));
  const auto size = static_cast<int64_t>(size_of(cache.dtype));
  check.require(cache.row_bytes >= row_values * size && cache.row_bytes % size == 0,
                "cache rows of {} bytes for {} values",
                cache.row_bytes,
                row_values);
  check.require(cache.block_stride_bytes >= rows_per_token * kBlockTokens * cache.row_bytes &&
                    cache.block_stride_bytes % size == 0,
                "cache blocks of {} bytes",
                cache.block_stride_bytes);
}

void check_rope(Checker& check, const RopeTable& rope, int64_t low, int64_t high) {
  check.require(rope.rotary >= low && rope.rotary <= high && rope.rotary % 2 == 0,
                "rotary width {}",
                rope.rotary);
  check.require(rope.rotary == 0 || (rope.cos && rope.sin), "rope table is null");
}

void check_gqa(Checker& check, const KvLayer& cache, int32_t heads) {
  check.require(cache.kv_heads > 0 && cache.head_dim > 0, "cache without heads");
  check.require(heads > 0 && cache.kv_heads > 0 && heads % cache.kv_heads == 0,
                "{} heads over {} kv heads",
                heads,
                cache.kv_heads);
  if (check.good()) check_cache(check, cache, cache.head_dim, 2 * int64_t{cache.kv_heads});
}

}  // namespace

Status validate(const HostDevice& device, const RopeAppendArgs& args) {
  Checker check("rope_append");
  const DType activation = device.info.activation;
  const int64_t dim = args.cache.head_dim;
  check_batch(check, args.batch, false);
  check_gqa(check, args.cache, args.heads);
  check_rope(check, args.rope, 0, dim);
  const int64_t width = (args.heads + 2 * int64_t{args.cache.kv_heads}) * dim;
  check.rows("qkv", args.qkv, width, DType::kF32, DType::kF32);
  check.rows("q", args.q, args.heads * dim, activation, activation);
  return check.status();
}

Status validate(const HostDevice& device, const AttendArgs& args) {
  Checker check("attend");
  const DType activation = device.info.activation;
  const int64_t width = int64_t{args.heads} * args.cache.head_dim;
  check_batch(check, args.batch, true);
  check_gqa(check, args.cache, args.heads);
  check.rows("q", args.q, width, activation, activation);
  check.rows("out", args.out, width, activation, activation);
  return check.status();
}

Status validate(const HostDevice& device, const MlaRopeAppendArgs& args) {
  Checker check("mla_rope_append");
  const DType activation = device.info.activation;
  const MlaShape& shape = args.shape;
  check_batch(check, args.batch, false);
  const Status shape_status = validate_mla(shape, DType::kF32);
  check.require(tensor::ok(shape_status), "{}", shape_status.message);
  const int64_t row = int64_t{shape.latent} + shape.rope;
  const int64_t width = int64_t{shape.heads} * (shape.nope + shape.rope);
  check_cache(check, args.cache, row, 1);
  check_rope(check, args.rope, shape.rope, shape.rope);
  check.require(args.latent_norm != nullptr, "latent_norm is null");
  check.rows("q", args.q, width, DType::kF32, DType::kF32);
  check.rows("kv", args.kv, row, DType::kF32, DType::kF32);
  check.rows("q_out", args.q_out, width, activation, activation);
  return check.status();
}

Status validate(const HostDevice& device, const MlaAttendArgs& args) {
  Checker check("mla_attend");
  const DType activation = device.info.activation;
  check_batch(check, args.batch, true);
  check.require(args.weights && args.weights->uk && args.weights->uv, "weights are null");
  if (!check.good()) return check.status();
  const MlaShape& shape = args.weights->shape;
  const Status shape_status = validate_mla(shape, args.weights->dtype);
  check.require(tensor::ok(shape_status), "{}", shape_status.message);
  check_cache(check, args.cache, int64_t{shape.latent} + shape.rope, 1);
  const int64_t width = int64_t{shape.heads} * (shape.nope + shape.rope);
  check.rows("q", args.q, width, activation, activation);
  check.rows("out", args.out, int64_t{shape.heads} * shape.value, activation, activation);
  return check.status();
}

}  // namespace tandem::kernels
