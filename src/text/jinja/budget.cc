#include "text/jinja/budget.h"

namespace tandem::text::jinja {
namespace {

constexpr uint64_t kStepsBetweenTimeChecks = 4096;

}  // namespace

Budget::Budget(const TemplateLimits& limits, const Clock& clock)
    : limits_(limits), clock_(clock), deadline_(clock.now() + limits.max_time) {}

Expected<void> Budget::step(uint64_t count) {
  steps_ += count;
  if (steps_ > limits_.max_steps) [[unlikely]] {
    return fail(ErrorCode::kTimeout, "takes more than {} steps", limits_.max_steps);
  }
  if (steps_ >= next_time_check_) [[unlikely]]
    return check_time();
  return {};
}

Expected<void> Budget::check_time() {
  next_time_check_ = steps_ + kStepsBetweenTimeChecks;
  if (clock_.now() <= deadline_) return {};
  return fail(ErrorCode::kTimeout,
              "takes longer than {} ms",
              std::chrono::duration_cast<std::chrono::milliseconds>(limits_.max_time).count());
}

Expected<void> Budget::take(size_t bytes) {
  if (bytes > limits_.max_live_bytes - live_bytes_) {
    return fail(
        ErrorCode::kInvalidArgument, "needs more than {} bytes of memory", limits_.max_live_bytes);
  }
  live_bytes_ += bytes;
  return {};
}

}  // namespace tandem::text::jinja
