#include "serve/health.h"

#include <gtest/gtest.h>

namespace tandem::serve {
namespace {

TEST(Health, FollowsTheStepLoop) {
  ManualClock clock;
  engine::EngineCounters counters;
  counters.last_step = clock.now();
  clock.advance(std::chrono::hours(1));
  const auto budget = std::chrono::seconds(60);
  EXPECT_TRUE(is_healthy(counters, clock.now(), budget));  // idle
  counters.busy = true;
  EXPECT_FALSE(is_healthy(counters, clock.now(), budget));
  counters.last_step = clock.now();
  EXPECT_TRUE(is_healthy(counters, clock.now(), budget));
  counters.consecutive_device_failures = 3;
  EXPECT_FALSE(is_healthy(counters, clock.now(), budget));
}

}  // namespace
}  // namespace tandem::serve
