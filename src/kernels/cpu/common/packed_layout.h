#pragma once
// Where the values of a packed weight lie: see micro_kernels.h for the panels.
//
// A part: panels of 64 output columns one after another, each [k][64]; then, for fp8, the scales
// [panel][ceil(k / 128)][64], one for each column, so that parts may start anywhere in a scale
// block. Every part and its scales begin at a multiple of 64 bytes. Columns beyond the last are 0.

#include "kernels/cpu/common/cpu_device.h"

namespace tandem::kernels::cpu {

constexpr int32_t kPanelLayout = 1;

constexpr PanelFormat panel_format(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
      return PanelFormat::kF32;
    case WeightFormat::kF16:
      return PanelFormat::kF16;
    case WeightFormat::kBF16:
      return PanelFormat::kBF16;
    case WeightFormat::kF8Block128:
      return PanelFormat::kF8;
  }
  return PanelFormat::kF32;
}

constexpr int64_t value_bytes(PanelFormat format) {
  switch (format) {
    case PanelFormat::kF32:
      return 4;
    case PanelFormat::kF16:
    case PanelFormat::kBF16:
      return 2;
    case PanelFormat::kF8:
      return 1;
  }
  return 4;
}

constexpr int64_t panel_bytes(PanelFormat format, int64_t k) {
  return kPanel * k * value_bytes(format);
}

// Place of column `c` of a panel among the 64 values of one k.
constexpr int place_of_column(PanelFormat format, int c) {
  if (format != PanelFormat::kBF16) return c;
  return c / 32 * 32 + c % 16 * 2 + c / 16 % 2;
}

// One panel of one part. `panel` < ceil(part.columns / 64).
inline PanelSource panel_of(const PackedPart& part, int64_t k, int64_t panel) {
  PanelSource source;
  source.format = panel_format(part.format);
  source.data = static_cast<const char*>(part.data) + panel * panel_bytes(source.format, k);
  if (part.scales) {
    source.scales =
        static_cast<const float*>(part.scales) + panel * divide_up(k, kPartition) * kPanel;
  }
  return source;
}

// Scratch of one member for PanelTask.
struct PanelScratch {
  static constexpr int64_t kTotals = int64_t{2} * kMaxTaskRows * kPanel;
  static constexpr int64_t kX = int64_t{kMaxTaskRows} * kPartition;
  static constexpr int64_t kW = int64_t{kPartition} * kPanel;
  static constexpr int64_t kFloats = kTotals + kX + kW;

  explicit PanelScratch(float* memory)
      : totals(memory), x(memory + kTotals), w(memory + kTotals + kX) {}
  float* totals;
  float* x;
  float* w;
};

}  // namespace tandem::kernels::cpu
