#include "net/http_client.h"

#include <gtest/gtest.h>

#include "net/server_test_util.h"

namespace tandem::net {
namespace {

HttpClient client_of(const TestServer& test, HttpClientOptions options = {}) {
  options.port = test.port;
  return HttpClient(std::move(options));
}

Router router() {
  Router out = echo_router();
  out.add("GET", "/stream", [](Request request, ResponseWriter writer) {
    writer.begin_stream(200, {{"x-kind", "stream"}});
    for (int i = 0; i < 1000; ++i) writer.write("piece " + std::to_string(i) + "\n");
    if (request.query != "cut") writer.end();
  });
  out.add("GET", "/never", [](Request, ResponseWriter writer) {
    eventually([&] { return writer.is_closed(); });
  });
  return out;
}

TEST(HttpClient, SendsAndReceivesOverOneConnection) {
  TestServer test(router());
  HttpClient client = client_of(test);
  const std::string body(300'000, 'b');
  for (int i = 0; i < 3; ++i) {
    const auto response =
        client.request({.method = "POST", .target = "/echo?x=1", .headers = {}, .body = body});
    ASSERT_TRUE(response) << response.error().to_line();
    EXPECT_EQ(response->status, 200);
    EXPECT_EQ(response->body, "POST /echo x=1 " + body);
    EXPECT_EQ(find_header(response->headers, "content-type"), "text/plain");
  }
  const auto head = client.request({.method = "HEAD", .target = "/echo"});
  ASSERT_TRUE(head) << head.error().to_line();
  EXPECT_EQ(head->body, "");
  EXPECT_EQ(client.request({.target = "/nope"})->status, 404);
  EXPECT_EQ(test.server->stats().accepted_connections, 1u);
}

TEST(HttpClient, StreamsPieces) {
  TestServer test(router());
  HttpClient client = client_of(test);
  std::string all, kind;
  const auto response =
      client.stream({.target = "/stream"},
                    {.on_head =
                         [&](const Response& head) {
                           kind = find_header(head.headers, "x-kind").value_or("");
                           return true;
                         },
                     .on_piece = [&](std::string_view piece) { return all += piece, true; }});
  ASSERT_TRUE(response) << response.error().to_line();
  EXPECT_EQ(kind, "stream");
  EXPECT_TRUE(all.starts_with("piece 0\npiece 1\n"));
  EXPECT_TRUE(all.ends_with("piece 999\n"));
  const auto stopped =
      client.stream({.target = "/stream"}, {.on_head = {}, .on_piece = [](auto) { return false; }});
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(client.request({.target = "/echo"})->status, 200);
}

TEST(HttpClient, FailuresAreErrors) {
  TestServer test(router());
  HttpClientOptions options;
  options.io_timeout = milliseconds(100);
  options.max_body_bytes = 1000;
  HttpClient client = client_of(test, options);
  EXPECT_EQ(client.request({.target = "/never"}).error().code, ErrorCode::kTimeout);
  EXPECT_EQ(client.request({.target = "/stream"}).error().code, ErrorCode::kUnavailable);
  options.max_body_bytes = 1'000'000;
  HttpClient patient = client_of(test, options);
  EXPECT_FALSE(patient.request({.target = "/stream?cut"}));
  EXPECT_EQ(patient.request({.target = "/echo", .headers = {{"x", "a\r\nb"}}}).error().code,
            ErrorCode::kInvalidArgument);
  const uint16_t port = test.port;
  test.server.reset();
  options.port = port;
  EXPECT_EQ(HttpClient(options).request({}).error().code, ErrorCode::kIo);
}

TEST(HttpClient, OpensANewConnectionWhenTheOldOneHasGone) {
  HttpServerConfig config;
  config.limits.idle_timeout = milliseconds(50);
  TestServer test(router(), config);
  HttpClient client = client_of(test);
  for (int i = 0; i < 3; ++i) {
    const auto response = client.request({.target = "/echo"});
    ASSERT_TRUE(response) << response.error().to_line();
    EXPECT_TRUE(eventually([&] { return test.server->stats().open_connections == 0; }));
  }
}

TEST(HttpClient, SpeaksIpv6) {
  HttpServerConfig config;
  config.host = "::1";
  config.port = 0;
  HttpServer server(config, echo_router(), {});
  const auto port = server.start();
  if (!port) GTEST_SKIP() << port.error().to_line();
  HttpClient client({.host = "::1", .port = *port});
  const auto response = client.request({.target = "/echo"});
  ASSERT_TRUE(response) << response.error().to_line();
  EXPECT_EQ(response->status, 200);
}

TEST(HttpClient, AServerOnAllAddressesTakesIpv4AsIpv4) {
  HttpServerConfig config;
  config.host = "::";
  config.port = 0;
  Router peers;
  peers.add("GET", "/peer", [](Request request, ResponseWriter writer) {
    writer.respond({.body = request.peer.ip});
  });
  HttpServer server(config, std::move(peers), {});
  const auto port = server.start();
  if (!port) GTEST_SKIP() << port.error().to_line();
  HttpClient client({.host = "127.0.0.1", .port = *port});
  EXPECT_EQ(client.request({.target = "/peer"}).value().body, "127.0.0.1");
}

}  // namespace
}  // namespace tandem::net
