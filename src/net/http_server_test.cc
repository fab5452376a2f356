// Requests, framing and limits of the running server, through raw sockets.
#include "net/http_server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <string>
#include <thread>

#include "net/server_test_util.h"

namespace tandem::net {
namespace {

TEST(HttpServer, AnswersAndKeepsTheConnection) {
  TestServer test(echo_router());
  RawSocket socket = test.connect();
  for (int i = 0; i < 3; ++i) {
    socket.send(post_request("/echo?a=1", "hello"));
    const std::string response = socket.read_response();
    EXPECT_EQ(status_of(response), 200);
    EXPECT_TRUE(response.ends_with("POST /echo a=1 hello")) << response;
    EXPECT_NE(response.find("\r\ndate: "), std::string::npos);
    EXPECT_EQ(response.find("connection: close"), std::string::npos);
  }
  socket.send(get_request("/items/a%20b"));
  EXPECT_TRUE(socket.read_response().ends_with("\r\n\r\na b"));
}

TEST(HttpServer, PipelinedRequestsAreAnsweredInOrder) {
  Router router;
  std::atomic<int> running{0}, most{0};
  router.add("GET", "/wait/{ms}", [&](Request request, ResponseWriter writer) {
    most = std::max(most.load(), ++running);
    std::this_thread::sleep_for(milliseconds(std::stoi(std::string(request.path_param("ms")))));
    --running;
    writer.respond({.body = std::string(request.path_param("ms"))});
  });
  TestServer test(std::move(router));
  RawSocket socket = test.connect();
  socket.send(get_request("/wait/60") + get_request("/wait/1") + get_request("/nope") +
              get_request("/wait/2"));
  EXPECT_TRUE(socket.read_response().ends_with("\r\n\r\n60"));
  EXPECT_TRUE(socket.read_response().ends_with("\r\n\r\n1"));
  EXPECT_EQ(status_of(socket.read_response()), 404);
  EXPECT_TRUE(socket.read_response().ends_with("\r\n\r\n2"));
  EXPECT_EQ(most, 1);
}

TEST(HttpServer, ManyPipelinedRequestsBeyondTheBound) {
  HttpServerConfig config;
  config.limits.max_pipelined_bytes = 1000;
  TestServer test(echo_router(), config);
  RawSocket socket = test.connect();
  constexpr int kCount = 3000;
  std::thread sender([&] {
    std::string all;
    for (int i = 0; i < kCount; ++i) all += get_request("/echo?" + std::to_string(i));
    socket.send(all);
  });
  for (int i = 0; i < kCount; ++i) {
    const std::string want = "GET /echo " + std::to_string(i) + " ";
    ASSERT_TRUE(socket.read_response().ends_with(want)) << i;
  }
  sender.join();
}

TEST(HttpServer, EveryCutOfARequestWorks) {
  TestServer test(echo_router());
  const std::string text =
      "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3;x=y\r\nabc\r\n1\r\nd\r\n0\r\nT: 1\r\n\r\n";
  for (size_t cut = 1; cut < text.size(); cut += 5) {
    RawSocket socket = test.connect();
    socket.send(text.substr(0, cut));
    std::this_thread::sleep_for(milliseconds(1));
    socket.send(text.substr(cut));
    EXPECT_TRUE(socket.read_response().ends_with("POST /echo  abcd")) << cut;
  }
}

TEST(HttpServer, HeadIsGetWithoutABody) {
  TestServer test(echo_router());
  RawSocket socket = test.connect();
  socket.send("HEAD /echo HTTP/1.1\r\nHost: h\r\n\r\n" + get_request("/echo"));
  const std::string head = socket.read_response(true);
  EXPECT_EQ(status_of(head), 200);
  EXPECT_NE(head.find("content-length: 12"), std::string::npos) << head;
  EXPECT_TRUE(socket.read_response().ends_with("GET /echo  "));
  socket.send("HEAD /nope HTTP/1.1\r\nHost: h\r\n\r\n" + get_request("/echo"));
  EXPECT_EQ(status_of(socket.read_response(true)), 404);
  EXPECT_EQ(status_of(socket.read_response()), 200);
}

TEST(HttpServer, UnknownPathsAndMethodsKeepTheConnection) {
  TestServer test(echo_router());
  RawSocket socket = test.connect();
  socket.send(post_request("/nope", "body"));
  EXPECT_EQ(status_of(socket.read_response()), 404);
  socket.send("PUT /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc");
  const std::string response = socket.read_response();
  EXPECT_EQ(status_of(response), 405);
  EXPECT_NE(response.find("allow: GET, HEAD, POST, OPTIONS\r\n"), std::string::npos) << response;
  socket.send(
      "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc");
  EXPECT_EQ(status_of(socket.read_response()), 415);
  socket.send("POST /echo HTTP/1.1\r\nHost: h\r\nExpect: magic\r\nContent-Length: 3\r\n\r\nabc");
  EXPECT_EQ(status_of(socket.read_response()), 417);
  socket.send(get_request("/echo"));
  EXPECT_EQ(status_of(socket.read_response()), 200);
}

TEST(HttpServer, ConnectionCloseAndHttp10) {
  TestServer test(echo_router());
  RawSocket closing = test.connect();
  closing.send(get_request("/echo", "Connection: close\r\n"));
  const std::string response = closing.read_to_end();
  EXPECT_TRUE(closing.ended());
  EXPECT_EQ(status_of(response), 200);
  EXPECT_NE(response.find("connection: close\r\n"), std::string::npos);
  RawSocket old = test.connect();
  old.send("GET /echo HTTP/1.0\r\n\r\n");
  EXPECT_EQ(status_of(old.read_to_end()), 200);
  EXPECT_TRUE(old.ended());
}

TEST(HttpServer, ExpectContinue) {
  TestServer test(echo_router());
  RawSocket socket = test.connect();
  socket.send(
      "POST /echo HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
  EXPECT_EQ(socket.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  socket.send("abc");
  EXPECT_TRUE(socket.read_response().ends_with("POST /echo  abc"));
  socket.send(
      "POST /nope HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
  EXPECT_EQ(status_of(socket.read_to_end()), 404) << "refused without asking for the body";
  EXPECT_TRUE(socket.ended());
  RawSocket huge = test.connect();
  huge.send(
      "POST /echo HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: "
      "99999999999\r\n\r\n");
  EXPECT_EQ(status_of(huge.read_to_end()), 413);
}

TEST(HttpServer, MalformedRequestsAreRefusedAndTheConnectionEnds) {
  TestServer test(echo_router());
  const std::vector<std::pair<std::string, int>> cases = {
      {"\x16\x03\x01\x02\x01", 400},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
      {"GET /echo HTTP/9.9\r\nHost: x\r\n\r\n", 505},
      {"GET /a/../echo HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"GET /echo HTTP/1.1\r\nBad Header Line\r\n\r\n", 400},
      {"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
       "0\r\n\r\nGET /echo HTTP/1.1\r\nHost: x\r\n\r\n",
       400}};
  for (const auto& [text, status] : cases) {
    RawSocket socket = test.connect();
    socket.send(text);
    const std::string response = socket.read_to_end();
    EXPECT_TRUE(socket.ended()) << text;
    EXPECT_EQ(status_of(response), status) << text;
    EXPECT_EQ(response.find("HTTP/1.1 2"), std::string::npos) << "a second answer: " << response;
  }
  EXPECT_EQ(test.server->stats().malformed_requests, cases.size());
}

TEST(HttpServer, FloodsAreAnsweredThoughTheClientKeepsSending) {
  TestServer test(echo_router());
  std::string many_headers = "GET /echo HTTP/1.1\r\nHost: x\r\n";
  for (int i = 0; i < 20000; ++i) many_headers += "X-H" + std::to_string(i) + ": v\r\n";
  std::string tiny_chunks = "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 200000; ++i) tiny_chunks += "1\r\nx\r\n";
  const std::vector<std::pair<std::string, int>> cases = {
      {many_headers + "\r\n", 431},
      {get_request("/echo", "X: " + std::string(20'000'000, 'a') + "\r\n"), 431},
      {get_request("/echo?" + std::string(100'000, 'a')), 414},
      {tiny_chunks + "0\r\n\r\n", 413},
      {post_request("/echo", std::string(50'000'000, 'b')), 413}};
  for (const auto& [text, status] : cases) {
    RawSocket socket = test.connect();
    EXPECT_TRUE(socket.send(text)) << "reset before the client could read, for " << status;
    EXPECT_EQ(status_of(socket.read_to_end()), status);
    EXPECT_TRUE(socket.ended());
  }
}

TEST(HttpServer, SlowClientsAreCut) {
  HttpServerConfig config;
  config.limits.header_timeout = milliseconds(150);
  config.limits.body_timeout = milliseconds(150);
  config.limits.idle_timeout = milliseconds(250);
  TestServer test(echo_router(), config);
  const auto trickle = [&](std::string_view start) {
    RawSocket socket = test.connect();
    socket.send(start);
    const auto begin = std::chrono::steady_clock::now();
    while (!socket.ended() && since(begin) < milliseconds(3000)) {
      socket.send("X");
      if (socket.receive(milliseconds(20))) break;
    }
    EXPECT_GE(since(begin), milliseconds(100));
    EXPECT_LT(since(begin), milliseconds(1500));
    return status_of(socket.read_to_end());
  };
  EXPECT_EQ(trickle("POST /echo HTTP/1.1\r\n"), 408);
  EXPECT_EQ(trickle("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n"), 408);
  RawSocket idle = test.connect();
  EXPECT_EQ(idle.read_to_end(), "") << "an idle connection ends without a word";
  EXPECT_TRUE(idle.ended());
  EXPECT_EQ(test.server->stats().timeouts, 2u);
}

TEST(HttpServer, CutMessagesCostNothing) {
  TestServer test(echo_router());
  RawSocket half = test.connect();
  half.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{");
  half.shut_sending();
  EXPECT_EQ(status_of(half.read_to_end()), 400);
  EXPECT_TRUE(half.ended());
  // Also where it comes after a whole one.
  RawSocket second_half = test.connect();
  second_half.send(get_request("/echo") + "GET /ec");
  second_half.shut_sending();
  EXPECT_EQ(status_of(second_half.read_response()), 200);
  EXPECT_EQ(status_of(second_half.read_to_end()), 400);
  // Nothing begun, nothing said.
  RawSocket silent = test.connect();
  silent.shut_sending();
  EXPECT_EQ(silent.read_to_end(), "");
  // A client that sends all and shuts its side still gets its answers.
  RawSocket whole = test.connect();
  whole.send(get_request("/echo?1") + get_request("/echo?2"));
  whole.shut_sending();
  const std::string responses = whole.read_to_end();
  EXPECT_NE(responses.find("GET /echo 1"), std::string::npos);
  EXPECT_NE(responses.find("GET /echo 2"), std::string::npos);
  EXPECT_TRUE(eventually([&] { return test.server->stats().open_connections == 0; }));
}

TEST(HttpServer, BodiesOfAllRequestsAreBoundedTogether) {
  HttpServerConfig config;
  config.limits.max_total_body_bytes = 1'000'000;
  TestServer test(echo_router(), config);
  {
    RawSocket first = test.connect();
    const std::string head = "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n";
    first.send(head + std::string(800'000, 'a'));
    EXPECT_TRUE(eventually([&] { return test.server->stats().body_bytes == 800'000; }));
    RawSocket second = test.connect();
    second.send(post_request("/echo", std::string(300'000, 'b')));
    EXPECT_EQ(status_of(second.read_response()), 503);
  }
  EXPECT_TRUE(eventually([&] {
    RawSocket third = test.connect();
    third.send(post_request("/echo", std::string(300'000, 'b')));
    return status_of(third.read_response()) == 200;
  }));
  EXPECT_TRUE(eventually([&] { return test.server->stats().body_bytes == 0; }));
}

TEST(HttpServer, TooManyConnectionsAreTold) {
  HttpServerConfig config;
  config.limits.max_connections = 3;
  TestServer test(echo_router(), config);
  std::vector<RawSocket> held;
  for (int i = 0; i < 3; ++i) held.push_back(test.connect());
  for (RawSocket& socket : held) {
    socket.send(get_request("/echo"));
    EXPECT_EQ(status_of(socket.read_response()), 200);
  }
  RawSocket extra = test.connect();
  extra.send(get_request("/echo"));
  const std::string response = extra.read_to_end();
  EXPECT_EQ(status_of(response), 503);
  EXPECT_NE(response.find("retry-after: "), std::string::npos);
  held.clear();
  EXPECT_TRUE(eventually([&] {
    RawSocket socket = test.connect();
    socket.send(get_request("/echo"));
    return status_of(socket.read_response()) == 200;
  }));
}

TEST(HttpServer, BusyWorkersGive503) {
  Router router;
  std::atomic<bool> go{false};
  router.add("GET", "/hold", [&](Request, ResponseWriter writer) {
    eventually([&] { return go.load(); });
    writer.respond({});
  });
  HttpServerConfig config;
  config.worker_threads = 1;
  config.max_waiting_requests = 1;
  TestServer test(std::move(router), config);
  std::vector<RawSocket> sockets;
  int refused = 0;
  for (int i = 0; i < 4; ++i) {
    sockets.push_back(test.connect());
    sockets.back().send(get_request("/hold"));
    std::this_thread::sleep_for(milliseconds(50));
  }
  go = true;
  for (RawSocket& socket : sockets) refused += status_of(socket.read_response()) == 503;
  EXPECT_EQ(refused, 2);
}

TEST(HttpServer, HooksShapeErrorsHeadersAndPreflights) {
  std::atomic<int> finished{0};
  HttpHooks hooks;
  hooks.error_response = [](int status, std::string_view reason, const RequestSummary& summary) {
    return Response{.status = status,
                    .headers = {{"content-type", "application/json"}},
                    .body = "{" + std::string(reason) + "|" + summary.path + "}"};
  };
  hooks.intercept = [](const Request& request) -> std::optional<Response> {
    if (request.method == "OPTIONS") return Response{.status = 204};
    if (!request.header("authorization")) return Response{.status = 401, .body = "who"};
    return std::nullopt;
  };
  hooks.decorate = [](const RequestSummary& summary, int, Headers& headers) {
    if (!summary.origin.empty()) headers.push_back({"access-control-allow-origin", "*"});
  };
  hooks.finished = [&](const RequestSummary&, const AnswerFacts&) { ++finished; };
  HttpServerConfig config;
  config.echo_request_id = true;
  TestServer test(echo_router(), config, hooks);
  RawSocket socket = test.connect();
  socket.send("OPTIONS /echo HTTP/1.1\r\nHost: x\r\nOrigin: http://o\r\n\r\n");
  const std::string preflight = socket.read_response();
  EXPECT_EQ(status_of(preflight), 204);
  EXPECT_NE(preflight.find("access-control-allow-origin: *"), std::string::npos);
  EXPECT_EQ(preflight.find("content-length"), std::string::npos);
  socket.send(post_request("/nope", "a body that is never read into memory"));
  EXPECT_TRUE(socket.read_response().ends_with("who")) << "the key comes before the route";
  socket.send(get_request("/nope", "Authorization: x\r\nX-Request-Id: abc-1\r\n"));
  const std::string missing = socket.read_response();
  EXPECT_TRUE(missing.ends_with("{there is no such path|/nope}")) << missing;
  EXPECT_NE(missing.find("x-request-id: abc-1\r\n"), std::string::npos);
  socket.send(get_request("/echo", "Authorization: x\r\nX-Request-Id: a b\"c\r\n"));
  const std::string echoed = socket.read_response();
  EXPECT_NE(echoed.find("x-request-id: "), std::string::npos);
  EXPECT_EQ(echoed.find("a b"), std::string::npos) << "an unfit id was echoed";
  EXPECT_TRUE(eventually([&] { return finished == 4; }));
}

TEST(HttpServer, OptionsNamesTheMethodsOfAPath) {
  std::mutex mutex;
  std::vector<std::string> routes;
  HttpHooks hooks;
  hooks.finished = [&](const RequestSummary& summary, const AnswerFacts&) {
    const std::lock_guard lock(mutex);
    routes.push_back(summary.route);
  };
  TestServer test(echo_router(), {}, hooks);
  RawSocket socket = test.connect();
  socket.send("OPTIONS /echo HTTP/1.1\r\nHost: x\r\n\r\n");
  const std::string known = socket.read_response();
  EXPECT_EQ(status_of(known), 204);
  EXPECT_NE(known.find("allow: GET, HEAD, POST, OPTIONS\r\n"), std::string::npos) << known;
  socket.send("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(status_of(socket.read_response()), 204);
  socket.send("OPTIONS /nope HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(status_of(socket.read_response()), 404);
  EXPECT_TRUE(eventually([&] {
    const std::lock_guard lock(mutex);
    return routes == std::vector<std::string>{"/echo", "", ""};
  }));
}

// What counts requests, or adds headers, may fail; the answers may not.
TEST(HttpServer, HooksThatThrowChangeNoAnswer) {
  Router router = echo_router();
  router.add("GET", "/stream", [](Request, ResponseWriter writer) {
    writer.begin_stream(200, {});
    writer.write("abc");
    writer.end();
  });
  std::atomic<int> thrown = 0;
  HttpHooks hooks;
  hooks.finished = [&](const RequestSummary&, const AnswerFacts&) {
    ++thrown;
    throw std::runtime_error("a counter failed");
  };
  hooks.decorate = [&](const RequestSummary&, int, Headers&) {
    ++thrown;
    throw std::runtime_error("a header failed");
  };
  TestServer test(std::move(router), {}, std::move(hooks));
  RawSocket socket = test.connect();
  for (int i = 0; i < 3; ++i) {
    socket.send(get_request("/echo"));
    EXPECT_EQ(status_of(socket.read_response()), 200);
    socket.send(get_request("/stream"));
    EXPECT_NE(socket.read_until("0\r\n\r\n").find("abc"), std::string::npos);
  }
  EXPECT_TRUE(eventually([&] { return thrown == 12; }));
}

TEST(HttpServer, HandlersThatFailGive500) {
  Router router;
  router.add("GET", "/throws", [](Request, ResponseWriter) { throw std::runtime_error("x"); });
  router.add("GET", "/drops", [](Request, ResponseWriter) {});
  router.add("GET", "/cuts", [](Request, ResponseWriter writer) {
    writer.begin_stream(200, {});
    writer.write("abc");
  });
  router.add("GET", "/injects", [](Request, ResponseWriter writer) {
    writer.respond(
        {.headers = {{"x-a", "1\r\nx-evil: 2"}, {"bad name", "x"}, {"connection", "x"}}});
  });
  TestServer test(std::move(router));
  RawSocket socket = test.connect();
  for (const char* path : {"/throws", "/drops"}) {
    socket.send(get_request(path));
    EXPECT_EQ(status_of(socket.read_response()), 500) << path;
  }
  socket.send(get_request("/injects"));
  const std::string response = socket.read_response();
  EXPECT_EQ(response.find("\r\nx-evil"), std::string::npos);
  EXPECT_EQ(response.find("bad name"), std::string::npos);
  socket.send(get_request("/cuts"));
  const std::string cut = socket.read_to_end();
  EXPECT_TRUE(socket.ended());
  EXPECT_EQ(cut.find("0\r\n\r\n"), std::string::npos) << "a cut stream must not look complete";
}

}  // namespace
}  // namespace tandem::net
