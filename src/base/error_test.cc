#include "base/error.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

Expected<int> half(int value) {
  if (value % 2 != 0) return fail(ErrorCode::kInvalidArgument, "{} is odd", value);
  return value / 2;
}

Expected<int> quarter(int value) {
  TANDEM_ASSIGN(const int once, half(value));
  TANDEM_TRY(half(once));
  return once / 2;
}

TEST(Error, TryReturnsTheFirstError) {
  EXPECT_EQ(quarter(8).value(), 2);
  EXPECT_EQ(quarter(7).error().message, "7 is odd");
  EXPECT_EQ(quarter(6).error().message, "3 is odd");
}

TEST(Error, LineHoldsTheHint) {
  EXPECT_EQ((Error{ErrorCode::kIo, "port 80 is taken", "use --port"}.to_line()),
            "port 80 is taken (use --port)");
  EXPECT_STREQ(to_string(ErrorCode::kCorruptData), "corrupt_data");
}

}  // namespace
}  // namespace tandem
