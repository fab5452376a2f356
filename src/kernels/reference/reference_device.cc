#include "kernels/reference/reference_device.h"

#include <cstring>
#include <memory>
#include <new>

#include "kernels/device.h"
#include "kernels/host/make_api.h"

namespace tandem::kernels {
namespace {

constexpr DeviceApi kReferenceApi = make_host_device_api<ReferenceOperators>();

}  // namespace

Expected<OwnedDevice> open_reference_device(DType activation) {
  if (activation != DType::kF32 && activation != DType::kBF16) {
    return fail(ErrorCode::kUnsupported,
                "the reference device computes in float32 or bfloat16, not {}",
                to_string(activation));
  }
  auto device = std::make_unique<HostDevice>();
  std::strncpy(device->info.name, "reference", sizeof(device->info.name) - 1);
  std::strncpy(device->info.instruction_set, "reference", sizeof(device->info.instruction_set) - 1);
  device->info.threads = 1;
  device->info.activation = activation;
  return OwnedDevice(&kReferenceApi, to_handle(device.release()));
}

}  // namespace tandem::kernels
