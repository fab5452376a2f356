#pragma once
// Opening devices: the only part of this module that is ordinary C++.

#include <memory>
#include <string>
#include <utility>

#include "base/error.h"
#include "kernels/device_api.h"
#include "system/cpu_features.h"
#include "system/cpu_set.h"

namespace tandem::kernels {

// A borrowed device: table and object. Copies freely; never outlives the OwnedDevice.
struct DeviceRef {
  const DeviceApi* api = nullptr;
  Device* device = nullptr;
};

// Closes the device on destruction. All buffers and streams of it are gone by then.
class OwnedDevice {
 public:
  OwnedDevice() = default;
  OwnedDevice(const DeviceApi* api, Device* device) : ref_{api, device} {}
  OwnedDevice(OwnedDevice&& other) noexcept : ref_(other.ref_) { other.ref_ = {}; }
  OwnedDevice& operator=(OwnedDevice&& other) noexcept {
    std::swap(ref_, other.ref_);
    return *this;
  }
  ~OwnedDevice() {
    if (ref_.device) ref_.api->destroy(ref_.device);
  }
  DeviceRef ref() const { return ref_; }

 private:
  DeviceRef ref_;
};

struct CpuDeviceConfig {
  std::string name = "cpu:0";
  int threads = 1;
  system::CpuSet cpus;  // empty = no restriction
  bool pin = false;
  DType activation = DType::kBF16;
  // What to run; must be supported by this machine (kInvalidArgument otherwise).
  system::InstructionSet instruction_set = system::InstructionSet::kGeneric;
};

// The fast CPU device. Any thread.
Expected<OwnedDevice> open_cpu_device(const CpuDeviceConfig& config);

// The plain device: one thread, short code, the truth that the others are tested against.
Expected<OwnedDevice> open_reference_device(DType activation);

}  // namespace tandem::kernels
