#include "system/float_environment.h"

#include <gtest/gtest.h>

#include <cfenv>
#include <limits>

namespace tandem::system {
namespace {

float half_of_smallest_normal() {
  volatile float smallest = std::numeric_limits<float>::min();
  volatile float half = smallest * 0.5f;
  return half;
}

// What the arithmetic does: on x86, fegetround() asks the x87 unit, which nothing here uses.
bool rounds_up() {
  volatile float one = 1.0f;
  volatile float little = 1e-20f;
  volatile float sum = one + little;
  return sum > 1.0f;
}

TEST(FloatEnvironment, FlushesDenormalsAndPutsTheOldModeBack) {
  ASSERT_GT(half_of_smallest_normal(), 0.0f);
  std::fesetround(FE_UPWARD);
  ASSERT_TRUE(rounds_up());
  {
    FloatEnvironment environment;
    EXPECT_EQ(half_of_smallest_normal(), 0.0f);
    volatile float denormal = std::numeric_limits<float>::denorm_min();
    volatile float scaled = denormal * 1e30f;
    EXPECT_EQ(scaled, 0.0f);
    EXPECT_FALSE(rounds_up());
    {
      FloatEnvironment nested;
      EXPECT_EQ(half_of_smallest_normal(), 0.0f);
    }
    EXPECT_EQ(half_of_smallest_normal(), 0.0f);
  }
  EXPECT_TRUE(rounds_up());
  std::fesetround(FE_TONEAREST);
  EXPECT_GT(half_of_smallest_normal(), 0.0f);
}

}  // namespace
}  // namespace tandem::system
