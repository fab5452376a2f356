#include "app/devices.h"

#include <charconv>

#include "system/cgroup.h"
#include "system/cpu_features.h"

namespace tandem::app {
namespace {

Expected<system::InstructionSet> choose_instruction_set(const std::string& flag) {
  const system::CpuFeatures features = system::detect_cpu_features();
  if (flag == "auto") return system::best_instruction_set(features);
  TANDEM_ASSIGN(const system::InstructionSet set, system::parse_instruction_set(flag));
  if (!system::supports(features, set)) {
    return fail(ErrorCode::kUnsupported,
                "--instruction-set {}: this processor has only: {}",
                flag,
                system::to_string(features));
  }
  return set;
}

Expected<kernels::OwnedDevice> open_one(const ServeOptions& options, int index) {
  if (options.device == "reference")
    return kernels::open_reference_device(activation_type(options));
  kernels::CpuDeviceConfig config;
  config.name = fmt::format("cpu:{}", index);
  config.threads = options.cpu_threads > 0 ? options.cpu_threads : system::usable_threads();
  config.activation = activation_type(options);
  TANDEM_ASSIGN(config.instruction_set, choose_instruction_set(options.instruction_set));
  return kernels::open_cpu_device(config);
}

// "cpu" or "cpu:0" is the main device, "cpu:1" and up a second one.
Expected<bool> wants_second_device(const std::string& flag) {
  if (flag.empty() || flag == "cpu" || flag == "cpu:0") return false;
  int index = 0;
  const std::string digits = flag.starts_with("cpu:") ? flag.substr(4) : "";
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size() || index < 1) {
    return fail(ErrorCode::kInvalidArgument, "--moe-device must be cpu or cpu:N, found '{}'", flag);
  }
  return true;
}

}  // namespace

std::vector<kernels::DeviceRef> Devices::refs() const {
  std::vector<kernels::DeviceRef> out;
  out.reserve(owned.size());
  for (const kernels::OwnedDevice& device : owned) out.push_back(device.ref());
  return out;
}

tensor::DType activation_type(const ServeOptions& options) {
  return options.dtype == "float32" || options.dtype == "float" ? tensor::DType::kF32
                                                                : tensor::DType::kBF16;
}

Expected<Devices> open_devices(const ServeOptions& options) {
  Devices devices;
  TANDEM_ASSIGN(kernels::OwnedDevice first, open_one(options, 0));
  devices.owned.push_back(std::move(first));
  TANDEM_ASSIGN(const bool second, wants_second_device(options.moe_device));
  if (second) {
    TANDEM_ASSIGN(kernels::OwnedDevice experts, open_one(options, 1));
    devices.owned.push_back(std::move(experts));
    devices.expert_device = 1;
  }
  return devices;
}

}  // namespace tandem::app
