#pragma once
// From flags to open devices.

#include <vector>

#include "app/serve_options.h"
#include "kernels/device.h"

namespace tandem::app {

struct Devices {
  std::vector<kernels::OwnedDevice> owned;
  std::optional<int> expert_device;  // index into `owned`

  std::vector<kernels::DeviceRef> refs() const;
};

// bfloat16 unless --dtype float32.
tensor::DType activation_type(const ServeOptions& options);

// Errors name the flag, what was found and what this machine has.
Expected<Devices> open_devices(const ServeOptions& options);

}  // namespace tandem::app
