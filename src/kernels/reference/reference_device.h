#pragma once
// The reference device: every operator in plain scalar float32, on the stream's own thread.

#include "kernels/host/run_context.h"

namespace tandem::kernels {

// One file for each group of functions. Contracts: operators.h, sampling.h, device_api.h.
struct ReferenceOperators {
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

}  // namespace tandem::kernels
