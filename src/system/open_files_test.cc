#include "system/open_files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace tandem::system {
namespace {

int64_t soft_limit() {
  rlimit limit{};
  EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  return static_cast<int64_t>(limit.rlim_cur);
}

TEST(OpenFiles, RaisesTheSoftLimitAsFarAsAllowed) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  if (before.rlim_max < 400) GTEST_SKIP() << "the hard limit is too low to try";
  rlimit low = before;
  low.rlim_cur = 200;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  EXPECT_EQ(raise_open_file_limit(300).value(), 300);
  EXPECT_EQ(soft_limit(), 300);
  EXPECT_EQ(raise_open_file_limit(100).value(), 300);  // never lowers
  EXPECT_EQ(soft_limit(), 300);
  const int64_t highest = raise_open_file_limit(INT64_MAX).value();
  EXPECT_EQ(soft_limit(), highest);
  EXPECT_EQ(static_cast<rlim_t>(highest), before.rlim_max);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

}  // namespace
}  // namespace tandem::system
