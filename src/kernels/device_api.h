#pragma once
// C++20 (shared with .cu)
// A device as a plain table: memory, streams, packing, operators. No std types and no exceptions
// cross it, so that a device can live in a library that is opened when wanted. The CPU device and
// the reference device go through it too.

#include <cstddef>
#include <cstdint>

#include "kernels/operators.h"
#include "kernels/sampling.h"
#include "tensor/memory_api.h"

namespace tandem::kernels {

using tensor::Device;
using tensor::Status;
using tensor::Stream;

// Changes with every change of a struct or function here.
constexpr uint32_t kDeviceApiVersion = 1;

struct DeviceInfo {
  char name[64] = {};             // "cpu:0"
  char instruction_set[32] = {};  // "avx512", "reference", …: what rounds alike
  int32_t threads = 0;
  DType activation = DType::kF32;  // the type A that the device was opened with
};

// Operators return at once: a non-zero Status means that the arguments were refused and nothing was
// submitted. Failures of the work itself are reported by synchronize() or by waiting for an event.
struct DeviceApi {
  uint32_t version = 0;
  const char* build_id =
      nullptr;  // equal in the program and the library, or the library is refused

  void (*destroy)(Device*);
  Status (*describe)(Device*, DeviceInfo* out);

  tensor::MemoryApi memory;

  // Bytes of device memory that pack() fills. Any thread. kUnsupported names a format that the
  // device cannot run.
  Status (*packed_bytes)(Device*, const WeightSource* parts, int32_t count, Pairing, size_t* out);
  // Converts into `memory` (64-byte aligned, packed_bytes() long) and fills *out. Synchronous; any
  // thread, several at once. Rows beyond a multiple of the layout's tile are padded with zeros.
  Status (*pack)(
      Device*, const WeightSource* parts, int32_t count, Pairing, void* memory, PackedWeight* out);
  Status (*packed_mla_bytes)(Device*, const MlaShape*, DType storage, size_t* out);
  Status (*pack_mla)(Device*,
                     const WeightSource* kv_b,
                     const MlaShape*,
                     DType storage,
                     void* memory,
                     MlaWeights* out);

  Status (*embed)(Device*, Stream*, const EmbedArgs*);
  Status (*rms_norm)(Device*, Stream*, const RmsNormArgs*);
  Status (*linear)(Device*, Stream*, const LinearArgs*);
  Status (*rope_append)(Device*, Stream*, const RopeAppendArgs*);
  Status (*attend)(Device*, Stream*, const AttendArgs*);
  Status (*mla_rope_append)(Device*, Stream*, const MlaRopeAppendArgs*);
  Status (*mla_attend)(Device*, Stream*, const MlaAttendArgs*);
  Status (*route)(Device*, Stream*, const RouteArgs*);
  Status (*experts)(Device*, Stream*, const ExpertsArgs*);
  Status (*gather_rows)(Device*, Stream*, const GatherRowsArgs*);
  Status (*sample)(Device*, Stream*, const SampleArgs*);
};

}  // namespace tandem::kernels
