#pragma once
// Executes a load list: reads the parts from a source, packs or copies them into device memory.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/error.h"
#include "kernels/device.h"
#include "kernels/device_api.h"
#include "tensor/buffer.h"
#include "weights/load_list.h"
#include "weights/tensor_source.h"

namespace tandem::weights {

struct LoadProgress {
  size_t done_bytes = 0;  // of published tensors
  size_t total_bytes = 0;
};

struct LoadOptions {
  int threads = 1;  // >= 1; the caller is one of them
  // Called from any of the threads, one call at a time; must not throw. May be empty.
  std::function<void(const LoadProgress&)> progress;
};

struct LoadedWeights {
  std::vector<LoadedItem> items;        // by index of the list
  std::vector<tensor::Buffer> buffers;  // what the items point into
};

// Checks that the source has every tensor of the list with the wanted shape and a type that can be
// run, and fills in formats and byte counts. Errors name tensor, found and wanted shape. A tensor
// of the source that no item uses and `ignore` does not know is an error too: it would be a part of
// the model that is silently left out.
Expected<void> resolve(std::vector<LoadItem>& items,
                       std::span<const kernels::DeviceRef> devices,
                       const TensorSource& source,
                       const std::function<bool(std::string_view)>& ignore);

// `items` as resolve() left them. Blocks; devices and source are used from several threads.
Expected<LoadedWeights> load(const std::vector<LoadItem>& items,
                             std::span<const kernels::DeviceRef> devices,
                             const TensorSource& source,
                             const LoadOptions& options);

}  // namespace tandem::weights
