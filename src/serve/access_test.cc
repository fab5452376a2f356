#include "serve/access.h"

#include <gtest/gtest.h>

namespace tandem::serve {
namespace {

const std::vector<std::string> kKeys = {"k1", "k2"};

net::Request request(const char* method, const char* path, const char* authorization = nullptr) {
  net::Request out;
  out.method = method;
  out.path = path;
  if (authorization) out.headers.push_back({"authorization", authorization});
  return out;
}

int status(const AccessConfig& config, const net::Request& asked) {
  const auto refused = refuse_without_key(config, asked);
  return refused ? refused->status : 200;
}

TEST(Access, WithoutKeysEverybodyMayAsk) {
  EXPECT_EQ(status({}, request("POST", "/v1/completions")), 200);
}

TEST(Access, ProbesAndOptionsAreOpenAndNothingElse) {
  const AccessConfig config{.keys = net::ApiKeys(kKeys)};
  for (const char* path : {"/health", "/ready", "/ping"})
    EXPECT_EQ(status(config, request("GET", path)), 200) << path;
  EXPECT_EQ(status(config, request("OPTIONS", "/v1/completions")), 200);
  for (const char* path : {"/v1/models",
                           "/tokenize",
                           "/metrics",
                           "/version",
                           "/load",
                           "/nope",
                           "/",
                           "/health/x",
                           "/Health"})
    EXPECT_EQ(status(config, request("GET", path)), 401) << path;
  EXPECT_EQ(status(config, request("GET", "/v1/models", "Bearer k2")), 200);
}

TEST(Access, MetricsOpenOnlyWhenAsked) {
  const AccessConfig config{.keys = net::ApiKeys(kKeys), .metrics_open = true};
  EXPECT_EQ(status(config, request("GET", "/metrics")), 200);
  EXPECT_EQ(status(config, request("GET", "/version")), 401);
}

TEST(Access, TheRefusalTellsNothing) {
  const AccessConfig config{.keys = net::ApiKeys(kKeys)};
  const auto absent = refuse_without_key(config, request("GET", "/v1/models"));
  const auto wrong = refuse_without_key(config, request("POST", "/nope", "Bearer k3"));
  ASSERT_TRUE(absent && wrong);
  EXPECT_EQ(absent->body, wrong->body);
  EXPECT_EQ(net::find_header(absent->headers, "www-authenticate"), "Bearer");
}

}  // namespace
}  // namespace tandem::serve
