#include "kernels/cpu/common/cpu_device.h"

#include <fmt/format.h>

#include <cstring>
#include <new>
#include <string>

#include "kernels/device.h"
#include "kernels/host/make_api.h"
#include "system/cpu_features.h"

namespace tandem::kernels {
namespace cpu {
namespace {

constexpr DeviceApi kCpuApi = make_host_device_api<CpuOperators>();

template <size_t kBytes>
void copy_text(const std::string& text, char (&out)[kBytes]) {
  std::strncpy(out, text.c_str(), kBytes - 1);
}

}  // namespace

const MicroKernels* find_kernels(system::InstructionSet set) {
  switch (set) {
    case system::InstructionSet::kGeneric:
      return generic_kernels();
    case system::InstructionSet::kAvx2:
      return avx2_kernels();
    case system::InstructionSet::kAvx512:
      return avx512_kernels();
    case system::InstructionSet::kNeon:
      return neon_kernels();
  }
  return nullptr;
}

void share_out(RunContext& context,
               int64_t count,
               int64_t grain,
               int64_t work,
               system::FunctionRef<void(int64_t begin, int64_t end, int member)> function) {
  if (count <= 0) return;
  system::ThreadTeam& team = context.team();
  if (team.size() == 1 || count <= grain || work < kSerialWork) {
    function(0, count, 0);
    return;
  }
  team.parallel_for(count, grain, function);
}

int team_size(const RunContext& context) { return context.team().size(); }

}  // namespace cpu

Expected<OwnedDevice> open_cpu_device(const CpuDeviceConfig& config) {
  if (config.activation != DType::kF32 && config.activation != DType::kBF16) {
    return fail(ErrorCode::kUnsupported,
                "{}: CPU devices compute in float32 or bfloat16, not {}",
                config.name,
                to_string(config.activation));
  }
  const char* set = system::to_string(config.instruction_set);
  const cpu::MicroKernels* kernels = cpu::find_kernels(config.instruction_set);
  if (kernels == nullptr ||
      !system::supports(system::detect_cpu_features(), config.instruction_set)) {
    return fail(
        ErrorCode::kInvalidArgument, "{}: this machine has no {} instructions", config.name, set);
  }
  system::ThreadTeamOptions options;
  options.thread_count = config.threads;
  options.cpus = config.cpus;
  options.pin = config.pin ? system::PinMode::kOn : system::PinMode::kAuto;
  options.name = "compute";
  auto device = std::make_unique<cpu::CpuDevice>();
  TANDEM_ASSIGN(device->own_team, system::ThreadTeam::create(std::move(options)));
  device->team = device->own_team.get();
  device->kernels = kernels;
  cpu::copy_text(config.name, device->info.name);
  cpu::copy_text(set, device->info.instruction_set);
  device->info.threads = config.threads;
  device->info.activation = config.activation;
  return OwnedDevice(&cpu::kCpuApi, to_handle(device.release()));
}

}  // namespace tandem::kernels
