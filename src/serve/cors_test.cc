#include "serve/cors.h"

#include <gtest/gtest.h>

namespace tandem::serve {
namespace {

net::Request preflight(const char* origin, const char* method, const char* headers = nullptr) {
  net::Request request;
  request.method = "OPTIONS";
  request.path = "/v1/models";
  request.headers = {{"origin", origin}, {"access-control-request-method", method}};
  if (headers) request.headers.push_back({"access-control-request-headers", headers});
  return request;
}

std::string header(const net::Headers& headers, const char* name) {
  return std::string(net::find_header(headers, name).value_or("(none)"));
}

net::Headers added(const CorsConfig& config, const char* origin) {
  net::Headers headers;
  add_cors_headers(config, origin, headers);
  return headers;
}

TEST(Cors, EveryPageMayAskByDefault) {
  const CorsConfig config;
  const auto answer = answer_preflight(config, preflight("http://a", "POST", "Authorization, X-B"));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 204);
  EXPECT_NE(header(answer->headers, "access-control-allow-methods").find("POST"),
            std::string::npos);
  EXPECT_EQ(header(answer->headers, "access-control-allow-headers"), "authorization, x-b");
  EXPECT_EQ(header(added(config, "http://a"), "access-control-allow-origin"), "*");
  EXPECT_TRUE(added(config, "").empty());
}

TEST(Cors, ListedOriginsAreNamedAndOthersGetNothing) {
  const CorsConfig config{.origins = {"http://a"}, .methods = {"GET"}, .headers = {"X-B"}};
  EXPECT_EQ(header(added(config, "http://a"), "access-control-allow-origin"), "http://a");
  EXPECT_EQ(header(added(config, "http://a"), "vary"), "Origin");
  EXPECT_TRUE(added(config, "http://ab").empty());
  EXPECT_EQ(answer_preflight(config, preflight("http://a", "GET", "x-b"))->status, 204);
  EXPECT_EQ(answer_preflight(config, preflight("http://a", "GET", "content-type"))->status, 204);
  EXPECT_EQ(answer_preflight(config, preflight("http://a", "POST"))->status, 400);
  EXPECT_EQ(answer_preflight(config, preflight("http://a", "GET", "authorization"))->status, 400);
  EXPECT_EQ(answer_preflight(config, preflight("http://b", "GET"))->status, 400);
}

TEST(Cors, WithCredentialsTheWildcardIsNotSent) {
  const CorsConfig config{.credentials = true};
  const net::Headers headers = added(config, "http://a");
  EXPECT_EQ(header(headers, "access-control-allow-origin"), "http://a");
  EXPECT_EQ(header(headers, "access-control-allow-credentials"), "true");
}

TEST(Cors, OtherOptionsRequestsAreNoPreflight) {
  net::Request request = preflight("http://a", "GET");
  request.headers.pop_back();
  EXPECT_FALSE(answer_preflight({}, request));
  request = preflight("http://a", "GET");
  request.method = "GET";
  EXPECT_FALSE(answer_preflight({}, request));
}

}  // namespace
}  // namespace tandem::serve
