#pragma once
// The fast CPU device: what its operators work with.

#include <memory>

#include "kernels/cpu/common/micro_kernels.h"
#include "kernels/host/run_context.h"
#include "system/cpu_features.h"
#include "system/function_ref.h"
#include "system/thread_team.h"

namespace tandem::kernels::cpu {

struct CpuDevice final : HostDevice {
  std::unique_ptr<system::ThreadTeam> own_team;
  const MicroKernels* kernels = nullptr;
};

// Null if the program was built without it.
const MicroKernels* find_kernels(system::InstructionSet set);

inline const MicroKernels& kernels_of(const RunContext& context) {
  return *context.device_as<CpuDevice>().kernels;
}

constexpr int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t round_up(int64_t a, int64_t b) { return divide_up(a, b) * b; }
constexpr int64_t bytes_of(DType type) { return static_cast<int64_t>(tensor::size_of(type)); }

// Multiply-adds below which waking the team costs more than it gives (a hand-over
// takes a few microseconds).
constexpr int64_t kSerialWork = 256 * 1024;
// A float that is read, changed and written costs about as much as this many multiply-adds.
constexpr int64_t kWorkOfMove = 4;

// Calls function(begin, end, member) over [0, count): by the team, or by the caller alone when
// `work` is small. Results must not depend on which. The stream's thread computes in the team's
// FloatEnvironment too.
void share_out(RunContext& context,
               int64_t count,
               int64_t grain,
               int64_t work,
               system::FunctionRef<void(int64_t begin, int64_t end, int member)> function);

// Members that share_out() may use.
int team_size(const RunContext& context);

// Contracts: operators.h, sampling.h, device_api.h.
struct CpuOperators {
  static Status packed_bytes(
      HostDevice& device, const WeightSource* parts, int32_t count, Pairing pairing, size_t* out);
  static Status pack(HostDevice& device,
                     const WeightSource* parts,
                     int32_t count,
                     Pairing pairing,
                     void* memory,
                     PackedWeight* out);
  static Status packed_mla_bytes(HostDevice& device,
                                 const MlaShape& shape,
                                 DType storage,
                                 size_t* out);
  static Status pack_mla(HostDevice& device,
                         const WeightSource& kv_b,
                         const MlaShape& shape,
                         DType storage,
                         void* memory,
                         MlaWeights* out);

  static void embed(RunContext& context, const EmbedArgs& args);
  static void rms_norm(RunContext& context, const RmsNormArgs& args);
  static void linear(RunContext& context, const LinearArgs& args);
  static void rope_append(RunContext& context, const RopeAppendArgs& args);
  static void attend(RunContext& context, const AttendArgs& args);
  static void mla_rope_append(RunContext& context, const MlaRopeAppendArgs& args);
  static void mla_attend(RunContext& context, const MlaAttendArgs& args);
  static void route(RunContext& context, const RouteArgs& args);
  static void experts(RunContext& context, const ExpertsArgs& args);
  static void gather_rows(RunContext& context, const GatherRowsArgs& args);
  static void sample(RunContext& context, const SampleArgs& args);
};

}  // namespace tandem::kernels::cpu
