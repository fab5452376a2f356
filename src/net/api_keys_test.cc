#include "net/api_keys.h"

#include <gtest/gtest.h>

namespace tandem::net {
namespace {

const std::vector<std::string> kKeys = {"first-key", "second-key"};

bool accept(std::vector<std::string> values) {
  Headers headers;
  for (std::string& value : values) headers.push_back({"authorization", std::move(value)});
  return ApiKeys(kKeys).accept(headers);
}

TEST(ApiKeys, EveryKeyIsAccepted) {
  EXPECT_TRUE(accept({"Bearer first-key"}));
  EXPECT_TRUE(accept({"Bearer second-key"}));
  EXPECT_TRUE(accept({"bEARER second-key"}));
  EXPECT_TRUE(accept({"Bearer   first-key"}));
}

TEST(ApiKeys, NothingElseIs) {
  for (const char* value : {"",
                            "Bearer",
                            "Bearer ",
                            "Bearer first-ke",
                            "Bearer first-keyx",
                            "Bearer FIRST-KEY",
                            "Bearer first-key second-key",
                            "Bearerfirst-key",
                            "Basic first-key",
                            "first-key"}) {
    EXPECT_FALSE(accept({value})) << value;
  }
  EXPECT_FALSE(accept({}));
}

TEST(ApiKeys, TwoHeadersAreNone) {
  EXPECT_FALSE(accept({"Bearer first-key", "Bearer wrong"}));
  EXPECT_FALSE(accept({"Bearer wrong", "Bearer first-key"}));
}

TEST(ApiKeys, AnEmptyKeyIsNeverOne) {
  const std::vector<std::string> keys = {""};
  EXPECT_FALSE(ApiKeys(keys).contains(""));
  EXPECT_TRUE(ApiKeys().empty());
}

}  // namespace
}  // namespace tandem::net
