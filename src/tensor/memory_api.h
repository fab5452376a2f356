#pragma once
// C++20 (shared with .cu)
// The memory half of a device: a plain table of functions, so that a device can live in a library
// of its own (no std types, no exceptions across it). The operators are the other half
// (kernels/device_api.h).

#include <cstddef>
#include <cstdint>

namespace tandem::tensor {

// code 0 is success; otherwise an ErrorCode + 1 (base/error.h) and one line of text.
struct Status {
  int32_t code = 0;
  char message[252] = {};
};
constexpr bool ok(const Status& status) { return status.code == 0; }

// Opaque: each device defines its own.
struct Device;
struct Stream;
struct Event;

enum class MemoryKind : int32_t {
  kDevice = 0,  // where the operators read and write
  kPinned = 1,  // host memory that the device copies from and to without staging
};

struct AllocationRequest {
  size_t bytes = 0;  // > 0
  MemoryKind kind = MemoryKind::kDevice;
  int32_t numa_node = -1;  // CPU devices: preferred node, -1 = no preference
};

// Thread rules: every function may be called from any thread; one stream is used by one thread at a
// time. Work submitted to one stream runs in order. Different streams are ordered only by events.
struct MemoryApi {
  // At least 64-byte aligned; contents undefined. *out is null on failure.
  Status (*allocate)(Device*, const AllocationRequest*, void** out);
  void (*free)(Device*, void* data, size_t bytes, MemoryKind);

  Status (*create_stream)(Device*, Stream** out);
  void (*destroy_stream)(Device*, Stream*);  // waits for what was submitted
  // Waits for everything submitted so far; returns the first failure of the stream's work since the
  // last call.
  Status (*synchronize)(Device*, Stream*);

  // Asynchronous copy within the device, or between it and host memory. Regions may not overlap.
  Status (*copy)(Device*, Stream*, void* destination, const void* source, size_t bytes);
  Status (*fill_zero)(Device*, Stream*, void* destination, size_t bytes);

  Status (*create_event)(Device*, Event** out);
  void (*destroy_event)(Device*, Event*);
  Status (*record)(Device*, Stream*, Event*);  // the event completes when the stream gets here
  // Blocks the calling thread until the last recorded point is reached (at once if never recorded).
  // The failure of work before that point is returned.
  Status (*wait)(Device*, Event*);
  bool (*query)(Device*, Event*);  // true when the last recorded point is reached

  // Runs `function(argument)` on a host thread in stream order; the stream goes on when it returns.
  // The only means by which two devices wait for each other: one stream signals, the other waits.
  Status (*launch_host)(Device*, Stream*, void (*function)(void*), void* argument);
};

}  // namespace tandem::tensor
