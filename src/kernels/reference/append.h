#pragma once
// Checks of what an appending operator reads from device memory.

#include "kernels/reference/reference_device.h"

namespace tandem::kernels {

// False and a failure if row t's position or slot cannot be.
inline bool check_append(RunContext& context, const RaggedBatch& batch, int64_t t) {
  if (batch.positions[t] >= 0 && batch.slots[t] >= -1) return true;
  context.fail(ErrorCode::kInternal,
               "append: position {} and slot {} in row {}",
               batch.positions[t],
               batch.slots[t],
               t);
  return false;
}

}  // namespace tandem::kernels
