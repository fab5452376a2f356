#pragma once
// Time as a constructor argument, so that tests drive it. Monotonic; the epoch means nothing.

#include <atomic>
#include <chrono>

namespace tandem {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

class Clock {
 public:
  virtual ~Clock() = default;
  // Any thread.
  virtual TimePoint now() const = 0;
};

class SteadyClock final : public Clock {
 public:
  TimePoint now() const override { return std::chrono::steady_clock::now(); }
};

// Stands still until advanced. Any thread.
class ManualClock final : public Clock {
 public:
  TimePoint now() const override { return TimePoint(Duration(nanoseconds_.load())); }
  void advance(Duration by) { nanoseconds_.fetch_add(by.count()); }

 private:
  std::atomic<Duration::rep> nanoseconds_{0};
};

// Seconds since 1970, for `created` fields and logs.
long long unix_seconds();

}  // namespace tandem
