#pragma once
// For tests of the CPU device: every instruction set that this machine has.

#include <memory>
#include <string>
#include <vector>

#include "kernels/operator_test_cases.h"
#include "system/cpu_features.h"

namespace tandem::kernels::testing {

inline std::vector<system::InstructionSet> instruction_sets() {
  const system::CpuFeatures features = system::detect_cpu_features();
  std::vector<system::InstructionSet> sets;
  for (const auto set : {system::InstructionSet::kGeneric,
                         system::InstructionSet::kAvx2,
                         system::InstructionSet::kAvx512,
                         system::InstructionSet::kNeon}) {
    if (system::supports(features, set)) sets.push_back(set);
  }
  return sets;
}

inline std::unique_ptr<TestDevice> cpu_device(DType activation,
                                              system::InstructionSet set,
                                              int threads = 1) {
  CpuDeviceConfig config;
  config.threads = threads;
  config.activation = activation;
  config.instruction_set = set;
  return std::make_unique<TestDevice>(open_cpu_device(config));
}

inline std::unique_ptr<TestDevice> best_device(DType activation, int threads = 1) {
  return cpu_device(
      activation, system::best_instruction_set(system::detect_cpu_features()), threads);
}

// Rows [first, first + count).
inline HostRows rows_of(const HostRows& all, int64_t first, int64_t count) {
  HostRows out(all.dtype, count, all.columns);
  for (int64_t r = 0; r < count; ++r) {
    for (int64_t c = 0; c < all.columns; ++c) out.set(r, c, all.at(first + r, c));
  }
  return out;
}

// What a rounding to the output's type may add to a difference of last bits.
inline float tolerance(DType out) { return out == DType::kBF16 ? 0x1p-7f : 1e-5f; }

}  // namespace tandem::kernels::testing
