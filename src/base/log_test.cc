#include "base/log.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(Log, UntrustedTextCannotForgeALine) {
  EXPECT_EQ(log_safe("a\nb\x1b[0m\xff é"), "a\\x0ab\\x1b[0m\\xff é");
  EXPECT_EQ(log_safe("abcdef", 3), "abc…");
}

}  // namespace
}  // namespace tandem
