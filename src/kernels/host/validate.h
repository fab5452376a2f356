#pragma once
// Checks an operator's arguments at submission: null pointers, shapes, types, and what the
// submitting thread can read (segments, sampling rows). What lies in device memory (ids, slots,
// block numbers) may not be written yet and is the run function's to check.
// Any thread. kInvalidArgument names the operator and the argument.

#include "kernels/host/host_device.h"

namespace tandem::kernels {

Status validate(const HostDevice& device, const EmbedArgs& args);
Status validate(const HostDevice& device, const RmsNormArgs& args);
Status validate(const HostDevice& device, const LinearArgs& args);
Status validate(const HostDevice& device, const RopeAppendArgs& args);
Status validate(const HostDevice& device, const AttendArgs& args);
Status validate(const HostDevice& device, const MlaRopeAppendArgs& args);
Status validate(const HostDevice& device, const MlaAttendArgs& args);
Status validate(const HostDevice& device, const RouteArgs& args);
Status validate(const HostDevice& device, const ExpertsArgs& args);
Status validate(const HostDevice& device, const GatherRowsArgs& args);
Status validate(const HostDevice& device, const SampleArgs& args);

// What pack() and packed_bytes() are given.
Status validate_parts(const WeightSource* parts, int32_t count, Pairing pairing);
Status validate_mla(const MlaShape& shape, DType storage);
// kv_b: [heads * (nope + value), latent].
Status validate_mla_source(const WeightSource& kv_b, const MlaShape& shape);

}  // namespace tandem::kernels
