// The packed form is the published one: rows as they are, with one row of scales for each row.

#include <cstring>

#include "kernels/reference/packed_rows.h"
#include "kernels/reference/reference_device.h"
#include "kernels/reference/values.h"

namespace tandem::kernels {
namespace {

constexpr int64_t kAlignment = 64;

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

int64_t data_bytes(const WeightSource& part) {
  return aligned(part.rows * part.k * quant::bytes_of_value(row_format(part.format)));
}

int64_t scale_bytes(const WeightSource& part) {
  if (part.format != WeightFormat::kF8Block128) return 0;
  return aligned(part.rows * quant::scale_columns(part.k) * int64_t{sizeof(float)});
}

bool is_known(WeightFormat format) {
  return format == WeightFormat::kF32 || format == WeightFormat::kF16 ||
         format == WeightFormat::kBF16 || format == WeightFormat::kF8Block128;
}

Status unknown_format(WeightFormat format) {
  return make_status(ErrorCode::kUnsupported,
                     "the reference device cannot run weight format {}",
                     static_cast<int32_t>(format));
}

}  // namespace

Status ReferenceOperators::packed_bytes(
    HostDevice&, const WeightSource* parts, int32_t count, Pairing, size_t* out) {
  int64_t bytes = 0;
  for (int32_t i = 0; i < count; ++i) {
    if (!is_known(parts[i].format)) return unknown_format(parts[i].format);
    bytes += data_bytes(parts[i]) + scale_bytes(parts[i]);
  }
  *out = static_cast<size_t>(bytes);
  return {};
}

Status ReferenceOperators::pack(HostDevice&,
                                const WeightSource* parts,
                                int32_t count,
                                Pairing pairing,
                                void* memory,
                                PackedWeight* out) {
  PackedWeight weight;
  weight.k = parts[0].k;
  weight.pairing = pairing;
  weight.part_count = count;
  char* next = static_cast<char*>(memory);
  for (int32_t i = 0; i < count; ++i) {
    const WeightSource& source = parts[i];
    if (!is_known(source.format)) return unknown_format(source.format);
    PackedPart& part = weight.parts[i];
    part.format = source.format;
    part.first_column = weight.n;
    part.columns = source.rows;
    part.data = next;
    const quant::RowSource rows = row_source(source);
    std::memcpy(next,
                source.data,
                static_cast<size_t>(source.rows * source.k * quant::bytes_of_value(rows.format)));
    next += data_bytes(source);
    if (source.format == WeightFormat::kF8Block128) {
      part.group = static_cast<int32_t>(quant::kScaleBlock);
      part.scales = next;
      const int64_t columns = quant::scale_columns(source.k);
      auto* scales = reinterpret_cast<float*>(next);
      for (int64_t r = 0; r < source.rows; ++r, scales += columns) {
        std::memcpy(
            scales, quant::scale_row(rows, r), static_cast<size_t>(columns) * sizeof(float));
      }
      next += scale_bytes(source);
    }
    weight.n += source.rows;
  }
  *out = weight;
  return {};
}

Status ReferenceOperators::packed_mla_bytes(HostDevice&,
                                            const MlaShape& shape,
                                            DType storage,
                                            size_t* out) {
  const int64_t values = int64_t{shape.heads} * (shape.nope + shape.value) * shape.latent;
  *out = static_cast<size_t>(values) * size_of(storage);
  return {};
}

// uk [heads, nope, latent], then uv [heads, value, latent]: kv_b's rows, sorted by kind.
Status ReferenceOperators::pack_mla(HostDevice&,
                                    const WeightSource& kv_b,
                                    const MlaShape& shape,
                                    DType storage,
                                    void* memory,
                                    MlaWeights* out) {
  if (!is_known(kv_b.format)) return unknown_format(kv_b.format);
  const auto latent = static_cast<int64_t>(shape.latent);
  const int64_t uk_rows = int64_t{shape.heads} * shape.nope;
  const quant::RowSource source = row_source(kv_b);
  std::vector<float> row(static_cast<size_t>(latent));
  for (int64_t r = 0; r < kv_b.rows; ++r) {
    const int64_t head = r / (shape.nope + shape.value);
    const int64_t in_head = r % (shape.nope + shape.value);
    const int64_t target = in_head < shape.nope
                               ? head * shape.nope + in_head
                               : uk_rows + head * shape.value + in_head - shape.nope;
    quant::dequantize_rows(source, r, 1, row.data());
    for (int64_t i = 0; i < latent; ++i) {
      store_value(storage, memory, target * latent + i, row[static_cast<size_t>(i)]);
    }
  }
  *out = {};
  out->shape = shape;
  out->dtype = storage;
  out->uk = memory;
  out->uv = static_cast<char*>(memory) + uk_rows * latent * static_cast<int64_t>(size_of(storage));
  return {};
}

}  // namespace tandem::kernels
