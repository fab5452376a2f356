#pragma once
// Where the values of packed MLA weights lie. `uk`: for each head panels of 64 latent columns, each
// [nope][64]. `uv`: for each head panels of 64 value columns, each [latent][64]. `uk_expanded`: for
// each head W_UK as published, [nope][latent]. All in the storage type (bf16 panels interleaved as
// in micro_kernels.h).

#include "kernels/cpu/common/packed_layout.h"

namespace tandem::kernels::cpu {

struct MlaLayout {
  MlaShape shape;
  PanelFormat format;
  int64_t bytes;  // of one value
  int64_t latent_panels;
  int64_t value_panels;
  int64_t uk_values;  // of one head
  int64_t uv_values;
  int64_t expanded_values;

  MlaLayout(const MlaShape& s, DType storage)
      : shape(s),
        format(storage == DType::kBF16 ? PanelFormat::kBF16 : PanelFormat::kF32),
        bytes(bytes_of(storage)),
        latent_panels(divide_up(s.latent, kPanel)),
        value_panels(divide_up(s.value, kPanel)),
        uk_values(latent_panels * kPanel * s.nope),
        uv_values(value_panels * kPanel * s.latent),
        expanded_values(round_up(int64_t{s.nope} * s.latent, kPanel)) {}

  int64_t head_values() const { return uk_values + uv_values + expanded_values; }

  PanelSource uk_panel(const MlaWeights& weights, int64_t head, int64_t panel) const {
    return source(weights.uk, head * uk_values + panel * kPanel * shape.nope);
  }
  PanelSource uv_panel(const MlaWeights& weights, int64_t head, int64_t panel) const {
    return source(weights.uv, head * uv_values + panel * kPanel * shape.latent);
  }
  const void* expanded_row(const MlaWeights& weights, int64_t head, int64_t row) const {
    return static_cast<const char*>(weights.uk_expanded) +
           (head * expanded_values + row * shape.latent) * bytes;
  }

 private:
  PanelSource source(const void* base, int64_t value) const {
    PanelSource panel;
    panel.format = format;
    panel.data = static_cast<const char*>(base) + value * bytes;
    return panel;
  }
};

}  // namespace tandem::kernels::cpu
