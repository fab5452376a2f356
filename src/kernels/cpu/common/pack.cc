#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/cpu/common/mla_layout.h"
#include "quant/rows.h"
#include "quant/scalar.h"

namespace tandem::kernels::cpu {
namespace {

constexpr int64_t kAlignment = 64;
// Turned a block at a time, so that what is written stays in the first-level cache.
constexpr int64_t kTurn = 64;

struct PartLayout {
  PanelFormat format;
  int64_t panels;
  int64_t blocks;  // partitions of k
  size_t data_bytes;
  size_t scale_bytes;
};

PartLayout layout_of(const WeightSource& part) {
  PartLayout layout;
  layout.format = panel_format(part.format);
  layout.panels = divide_up(part.rows, kPanel);
  layout.blocks = divide_up(part.k, kPartition);
  layout.data_bytes =
      static_cast<size_t>(round_up(layout.panels * panel_bytes(layout.format, part.k), kAlignment));
  const bool scaled = layout.format == PanelFormat::kF8;
  layout.scale_bytes =
      scaled ? static_cast<size_t>(layout.panels * layout.blocks * kPanel) * sizeof(float) : 0;
  return layout;
}

// value(column, k) for one panel of `columns` real columns.
template <class T, class Value>
void fill_panel(PanelFormat format, int64_t columns, int64_t k, T* out, Value value) {
  for (int64_t k0 = 0; k0 < k; k0 += kTurn) {
    const int64_t end = std::min(k, k0 + kTurn);
    for (int c = 0; c < kPanel; ++c) {
      T* at = out + place_of_column(format, c);
      for (int64_t i = k0; i < end; ++i) at[i * kPanel] = c < columns ? value(c, i) : T{};
    }
  }
}

template <class T>
void pack_values(const WeightSource& part, const PartLayout& layout, void* out) {
  const T* data = static_cast<const T*>(part.data);
  for (int64_t p = 0; p < layout.panels; ++p) {
    fill_panel(layout.format,
               part.rows - p * kPanel,
               part.k,
               static_cast<T*>(out) + p * kPanel * part.k,
               [&](int64_t c, int64_t i) { return data[(p * kPanel + c) * part.k + i]; });
  }
}

bool holds_nan(const uint8_t* codes, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if ((codes[i] & 0x7f) == 0x7f) return true;
  }
  return false;
}

// A NaN code makes its scale NaN: the sum of the partition is then NaN, as it must be, and the
// kernels need not look at codes.
void pack_scales(const WeightSource& part, const PartLayout& layout, float* out) {
  const uint8_t* codes = static_cast<const uint8_t*>(part.data);
  const quant::RowSource source{
      quant::RowFormat::kF8Block128, part.k, part.data, part.scales, part.first_row};
  for (int64_t column = 0; column < layout.panels * kPanel; ++column) {
    float* at = out + column / kPanel * layout.blocks * kPanel + column % kPanel;
    const bool real = column < part.rows;
    const float* scales = real ? quant::scale_row(source, column) : nullptr;
    for (int64_t b = 0; b < layout.blocks; ++b) {
      float scale = real ? scales[b] : 0.0f;
      const int64_t k0 = b * kPartition;
      if (real && holds_nan(codes + column * part.k + k0, std::min(part.k - k0, int64_t{128}))) {
        scale = std::numeric_limits<float>::quiet_NaN();
      }
      at[b * kPanel] = scale;
    }
  }
}

PackedPart pack_part(const WeightSource& part, const PartLayout& layout, char* memory) {
  PackedPart packed;
  packed.format = part.format;
  packed.layout = kPanelLayout;
  packed.columns = part.rows;
  packed.data = memory;
  switch (value_bytes(layout.format)) {
    case 4:
      pack_values<uint32_t>(part, layout, memory);
      break;
    case 2:
      pack_values<uint16_t>(part, layout, memory);
      break;
    default:
      pack_values<uint8_t>(part, layout, memory);
      break;
  }
  if (layout.scale_bytes > 0) {
    packed.group = kPartition;
    float* scales = reinterpret_cast<float*>(memory + layout.data_bytes);
    packed.scales = scales;
    pack_scales(part, layout, scales);
  }
  return packed;
}

quant::RowFormat row_format(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
      return quant::RowFormat::kF32;
    case WeightFormat::kF16:
      return quant::RowFormat::kF16;
    case WeightFormat::kBF16:
      return quant::RowFormat::kBF16;
    case WeightFormat::kF8Block128:
      return quant::RowFormat::kF8Block128;
  }
  return quant::RowFormat::kF32;
}

template <class T>
T stored(float value) {
  if constexpr (sizeof(T) == 4) {
    return value;
  } else {
    return quant::float_to_bf16(value);
  }
}

// One head: `rows` are its [nope + value, latent] dequantized rows.
template <class T>
void pack_mla_head(
    const MlaShape& shape, const MlaLayout& layout, const float* rows, T* uk, T* uv, T* expanded) {
  const PanelFormat format = layout.format;
  const int64_t latent = shape.latent;
  for (int64_t p = 0; p < layout.latent_panels; ++p) {
    fill_panel(format,
               latent - p * kPanel,
               shape.nope,
               uk + p * kPanel * shape.nope,
               [&](int64_t c, int64_t i) { return stored<T>(rows[i * latent + p * kPanel + c]); });
  }
  const float* value_rows = rows + shape.nope * latent;
  for (int64_t p = 0; p < layout.value_panels; ++p) {
    fill_panel(
        format,
        shape.value - p * kPanel,
        latent,
        uv + p * kPanel * latent,
        [&](int64_t c, int64_t i) { return stored<T>(value_rows[(p * kPanel + c) * latent + i]); });
  }
  for (int64_t i = 0; i < shape.nope * latent; ++i) expanded[i] = stored<T>(rows[i]);
}

template <class T>
void pack_mla_heads(const WeightSource& kv_b,
                    const MlaShape& shape,
                    DType storage,
                    MlaWeights* out) {
  const MlaLayout layout(shape, storage);
  const quant::RowSource source{
      row_format(kv_b.format), kv_b.k, kv_b.data, kv_b.scales, kv_b.first_row};
  const int64_t rows_of_head = int64_t{shape.nope} + shape.value;
  std::vector<float> rows(static_cast<size_t>(rows_of_head * shape.latent));
  T* uk = static_cast<T*>(const_cast<void*>(out->uk));
  T* uv = static_cast<T*>(const_cast<void*>(out->uv));
  T* expanded = static_cast<T*>(const_cast<void*>(out->uk_expanded));
  for (int64_t h = 0; h < shape.heads; ++h) {
    quant::dequantize_rows(source, h * rows_of_head, rows_of_head, rows.data());
    pack_mla_head<T>(shape,
                     layout,
                     rows.data(),
                     uk + h * layout.uk_values,
                     uv + h * layout.uv_values,
                     expanded + h * layout.expanded_values);
  }
}

}  // namespace

Status CpuOperators::packed_bytes(
    HostDevice&, const WeightSource* parts, int32_t count, Pairing, size_t* out) {
  *out = 0;
  for (int32_t i = 0; i < count; ++i) {
    const PartLayout layout = layout_of(parts[i]);
    *out += layout.data_bytes + layout.scale_bytes;
  }
  return {};
}

Status CpuOperators::pack(HostDevice&,
                          const WeightSource* parts,
                          int32_t count,
                          Pairing pairing,
                          void* memory,
                          PackedWeight* out) {
  *out = PackedWeight();
  out->k = parts[0].k;
  out->pairing = pairing;
  out->part_count = count;
  char* at = static_cast<char*>(memory);
  for (int32_t i = 0; i < count; ++i) {
    const PartLayout layout = layout_of(parts[i]);
    out->parts[i] = pack_part(parts[i], layout, at);
    out->parts[i].first_column = out->n;
    out->n += parts[i].rows;
    at += layout.data_bytes + layout.scale_bytes;
  }
  return {};
}

Status CpuOperators::packed_mla_bytes(HostDevice&,
                                      const MlaShape& shape,
                                      DType storage,
                                      size_t* out) {
  const MlaLayout layout(shape, storage);
  *out = static_cast<size_t>(shape.heads * layout.head_values() * layout.bytes);
  return {};
}

Status CpuOperators::pack_mla(HostDevice&,
                              const WeightSource& kv_b,
                              const MlaShape& shape,
                              DType storage,
                              void* memory,
                              MlaWeights* out) {
  const MlaLayout layout(shape, storage);
  *out = MlaWeights();
  out->shape = shape;
  out->dtype = storage;
  out->layout = kPanelLayout;
  char* at = static_cast<char*>(memory);
  out->uk = at;
  at += shape.heads * layout.uk_values * layout.bytes;
  out->uv = at;
  at += shape.heads * layout.uv_values * layout.bytes;
  out->uk_expanded = at;
  if (storage == DType::kF32) {
    pack_mla_heads<float>(kv_b, shape, storage, out);
  } else {
    pack_mla_heads<uint16_t>(kv_b, shape, storage, out);
  }
  return {};
}

}  // namespace tandem::kernels::cpu
