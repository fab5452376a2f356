#include "serve/health.h"

namespace tandem::serve {

// A single failed step ends its requests and may be their fault; this many in a row are the
// device's.
constexpr int kFailuresInARow = 3;

bool is_healthy(const engine::EngineCounters& counters, TimePoint now, Duration step_budget) {
  if (counters.dead) return false;
  if (counters.consecutive_device_failures >= kFailuresInARow) return false;
  return !counters.busy || now - counters.last_step <= step_budget;
}

}  // namespace tandem::serve
