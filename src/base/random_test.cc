#include "base/random.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

// Known answers of Random123 1.14 (kat_vectors, philox4x32 10).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(Philox, UniformIsOpen) {
  EXPECT_GT(uniform_open(0), 0.0f);
  EXPECT_LT(uniform_open(0xffffffff), 1.0f);
}

}  // namespace
}  // namespace tandem
