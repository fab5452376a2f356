#pragma once
// What one rendering may use. Templates come with a model's files and their data from clients, so
// every loop, string and level of nesting is paid for here.

#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "base/error.h"

namespace tandem::text {

struct TemplateLimits {
  uint64_t max_steps = 20'000'000;      // evaluated nodes, loop rounds, 64 bytes handled
  size_t max_output_bytes = 64u << 20;  // of the text
  size_t max_live_bytes = 512u << 20;   // of all values alive at once
  int max_depth = 400;                  // nested evaluations, macro calls included
  int64_t max_range = 100'000;          // elements of range(), as Jinja2's sandbox has it
  Duration max_time = std::chrono::seconds(10);
};

namespace jinja {

// One rendering's account. One thread.
class Budget {
 public:
  Budget(const TemplateLimits& limits, const Clock& clock);

  const TemplateLimits& limits() const { return limits_; }

  // Errors: kTimeout above max_steps or max_time.
  Expected<void> step(uint64_t count = 1);
  // For work that is linear in a size.
  Expected<void> step_bytes(size_t bytes) { return step(1 + bytes / 64); }

  // Errors: kInvalidArgument above max_live_bytes (nothing is taken then).
  Expected<void> take(size_t bytes);
  void release(size_t bytes) { live_bytes_ -= bytes; }

 private:
  Expected<void> check_time();

  TemplateLimits limits_;
  const Clock& clock_;
  TimePoint deadline_;
  uint64_t steps_ = 0;
  uint64_t next_time_check_ = 0;
  size_t live_bytes_ = 0;
};

}  // namespace jinja
}  // namespace tandem::text
