#include "net/router.h"

#include <gtest/gtest.h>

#include "net/target.h"

namespace tandem::net {
namespace {

TEST(Target, CanonicalPathsPass) {
  const auto path = [](std::string_view text) { return parse_target(text).value().path; };
  EXPECT_EQ(path("/"), "/");
  EXPECT_EQ(path("/v1/models"), "/v1/models");
  EXPECT_EQ(path("/v1/"), "/v1/");
  EXPECT_EQ(path("/v1/%6dodels"), "/v1/models");
  EXPECT_EQ(path("/a%20b/..c/%c3%a4"), "/a b/..c/ä");
  EXPECT_EQ(path("/%2525"), "/%25") << "decoded once, not twice";
  EXPECT_EQ(path("*"), "*");
  EXPECT_EQ(path("http://h:1?q"), "/");
  EXPECT_EQ(parse_target("/a?b?c=%2F//..").value().query, "b?c=%2F//..");
  EXPECT_EQ(parse_target("HTTP://Host:80/x").value().authority, "host:80");
}

TEST(Target, AmbiguousPathsAreRefused) {
  for (
      const char* text :
      {"",          "v1",           "//v1",         "/v1//models",  "/v1/./models", "/v1/../models",
       "/v1/..",    "/%2e%2e/x",    "/v1%2Fmodels", "/v1%2fmodels", "/v1%5cmodels", "/v1\\models",
       "/a%00",     "/a%0a",        "/a%7f",        "/a%",          "/a%4",         "/a%zz",
       "/a#b",      "/\xc3\xa4",    "/%c3",         "/%ff",         "/a b",         "ftp://h/x",
       "http:///x", "http://u@h/x", "http://h//x",  "file:/x"})
    EXPECT_FALSE(parse_target(text)) << text;
}

TEST(Target, QueryValues) {
  EXPECT_EQ(query_value("a=1&b=x%20y+z&b=2", "b"), "x y z");
  EXPECT_EQ(query_value("a=1&flag", "flag"), "");
  EXPECT_EQ(query_value("a=%zz", "a"), "");
  EXPECT_EQ(query_value("", "a"), "");
}

Handler handler() {
  return [](Request, ResponseWriter) {};
}

TEST(Router, FindsExactPathsAndPatterns) {
  Router router;
  router.add("GET", "/v1/models", handler());
  router.add("GET", "/v1/models/{id...}", handler());
  router.add("GET", "/v1/responses/{id}", handler());
  router.add("POST", "/v1/responses/{id}/cancel", handler());
  router.add("DELETE", "/v1/responses/{id}", handler());

  EXPECT_NE(router.match("GET", "/v1/models").handler, nullptr);
  EXPECT_NE(router.match("HEAD", "/v1/models").handler, nullptr);
  const auto rest = router.match("GET", "/v1/models/org/name");
  ASSERT_EQ(rest.path_params.size(), 1u);
  EXPECT_EQ(rest.path_params[0].name, "id");
  EXPECT_EQ(rest.path_params[0].value, "org/name");
  const auto cancel = router.match("POST", "/v1/responses/r1/cancel");
  ASSERT_NE(cancel.handler, nullptr);
  EXPECT_EQ(cancel.path_params[0].value, "r1");

  const auto wrong_method = router.match("PUT", "/v1/responses/r1");
  EXPECT_EQ(wrong_method.handler, nullptr);
  EXPECT_EQ(wrong_method.allow, "GET, HEAD, DELETE");
  for (const char* path : {"/",
                           "/v1",
                           "/v1/",
                           "/v1/models/",
                           "/v1/responses",
                           "/v1/responses/",
                           "/v1/responses/a/b",
                           "/v1/responses/a/cancel/",
                           "*",
                           ""})
    EXPECT_EQ(router.match("GET", path).allow, "") << path;
}

TEST(HttpMessage, RequestIdsAreLimited) {
  EXPECT_TRUE(is_valid_request_id("0f8fad5b-d9cb-469f-a165-70867728950e"));
  EXPECT_TRUE(is_valid_request_id(std::string(128, 'a')));
  for (const std::string& id :
       {std::string(), std::string(129, 'a'), std::string("a b"), std::string("a\"b")})
    EXPECT_FALSE(is_valid_request_id(id)) << id;
}

}  // namespace
}  // namespace tandem::net
