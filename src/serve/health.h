#pragma once
// Alive = the step loop moves. Pure.

#include "engine/counters.h"

namespace tandem::serve {

// False when the engine has died, when the loop has had work for longer than `step_budget` without
// going round, or when the device has failed several steps in a row.
bool is_healthy(const engine::EngineCounters& counters, TimePoint now, Duration step_budget);

}  // namespace tandem::serve
