#pragma once
// Which device holds and runs each part of each layer: data that the planner makes and the executor
// runs.

#include <cstdint>
#include <vector>

namespace tandem::weights {

// Index into the run's list of devices.
using DeviceIndex = int32_t;

struct LayerPlacement {
  DeviceIndex attention = 0;  // norms, attention and this layer's KV
  DeviceIndex mlp = 0;        // router, dense and shared MLP
  DeviceIndex experts = 0;    // routed experts
};

struct Placement {
  DeviceIndex embed = 0;
  DeviceIndex head = 0;  // final norm, lm_head, sampling
  std::vector<LayerPlacement> layers;
};

}  // namespace tandem::weights
