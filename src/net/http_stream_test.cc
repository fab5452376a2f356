// Streams, clients that go away or do not read, start and stop.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "net/http_server.h"
#include "net/server_test_util.h"
#include "net/sse.h"

namespace tandem::net {
namespace {

// Keeps the writers of /stream, as an engine would, for the test's own thread to write to.
class Streams {
 public:
  Router router() {
    Router router = echo_router();
    router.add("GET", "/stream", [this](Request, ResponseWriter writer) {
      writer.begin_stream(200, {{"content-type", std::string(kSseContentType)}});
      add(std::move(writer));
    });
    router.add("GET", "/later", [this](Request, ResponseWriter writer) { add(std::move(writer)); });
    return router;
  }
  ResponseWriter wait(size_t index = 0) {
    EXPECT_TRUE(eventually([&] { return size() > index; }));
    const std::lock_guard lock(mutex_);
    return writers_.at(index);
  }
  size_t size() {
    const std::lock_guard lock(mutex_);
    return writers_.size();
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    writers_.clear();
  }
  std::atomic<int> closed{0};

 private:
  void add(ResponseWriter writer) {
    writer.on_close([this] { ++closed; });
    const std::lock_guard lock(mutex_);
    writers_.push_back(std::move(writer));
  }
  std::mutex mutex_;
  std::vector<ResponseWriter> writers_;
};

TEST(HttpStream, PiecesArriveAsTheyAreWritten) {
  Streams streams;
  TestServer test(streams.router());
  RawSocket socket = test.connect();
  socket.send(get_request("/stream"));
  const std::string head = socket.read_until("\r\n\r\n");
  EXPECT_NE(head.find("transfer-encoding: chunked\r\n"), std::string::npos);
  ResponseWriter writer = streams.wait();
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(writer.write(sse_data(std::to_string(i))));
    EXPECT_EQ(socket.read_until("\n\n\r\n"), "9\r\ndata: " + std::to_string(i) + "\n\n\r\n");
  }
  EXPECT_FALSE(writer.begin_stream(200, {}));
  EXPECT_FALSE(writer.respond({}));
  EXPECT_TRUE(writer.end());
  EXPECT_FALSE(writer.end());
  EXPECT_FALSE(writer.write("x"));
  EXPECT_EQ(socket.read_until("0\r\n\r\n"), "0\r\n\r\n");
  socket.send(get_request("/echo"));
  EXPECT_EQ(status_of(socket.read_response()), 200);
  EXPECT_EQ(streams.closed, 0);
}

TEST(HttpStream, Http10StreamsEndWithTheConnection) {
  Streams streams;
  TestServer test(streams.router());
  RawSocket socket = test.connect();
  socket.send("GET /stream HTTP/1.0\r\n\r\n");
  ResponseWriter writer = streams.wait();
  writer.write("abc");
  writer.end();
  const std::string all = socket.read_to_end();
  EXPECT_TRUE(all.ends_with("\r\n\r\nabc"));
  EXPECT_EQ(all.find("chunked"), std::string::npos);
}

TEST(HttpStream, HeadOfAStreamHasNoBody) {
  Streams streams;
  TestServer test(streams.router());
  RawSocket socket = test.connect();
  socket.send("HEAD /stream HTTP/1.1\r\nHost: x\r\n\r\n");
  ResponseWriter writer = streams.wait();
  EXPECT_TRUE(writer.write("abc"));
  EXPECT_TRUE(writer.end());
  socket.read_until("\r\n\r\n");
  socket.send(get_request("/echo"));
  EXPECT_TRUE(socket.read_response().starts_with("HTTP/1.1 200"));
}

TEST(HttpStream, ACloseIsNoticedAtOnce) {
  for (const char* path : {"/stream", "/later"}) {
    for (const bool hard : {false, true}) {
      Streams streams;
      TestServer test(streams.router());
      RawSocket socket = test.connect();
      socket.send(get_request(path));
      ResponseWriter writer = streams.wait();
      if (std::string_view(path) == "/stream") socket.read_until("\r\n\r\n");
      EXPECT_FALSE(writer.is_closed());
      const auto begin = std::chrono::steady_clock::now();
      hard ? socket.reset() : socket.close();
      EXPECT_TRUE(eventually([&] { return streams.closed == 1; }, milliseconds(2000)));
      EXPECT_LT(since(begin), milliseconds(100)) << path << hard;
      EXPECT_TRUE(writer.is_closed());
      EXPECT_FALSE(writer.write("x"));
      int late = 0;
      writer.on_close([&] { ++late; });
      EXPECT_EQ(late, 1) << "a late callback runs at once";
      streams.clear();
    }
  }
}

TEST(HttpStream, ACloseBehindPipelinedRequestsIsNoticed) {
  HttpServerConfig config;
  config.limits.max_pipelined_bytes = 100;
  for (const int extra : {1, 100}) {
    Streams streams;
    TestServer test(streams.router(), config);
    RawSocket socket = test.connect();
    socket.send(get_request("/later"));
    ResponseWriter writer = streams.wait();
    for (int i = 0; i < extra; ++i) socket.send(get_request("/echo"));
    std::this_thread::sleep_for(milliseconds(20));
    EXPECT_EQ(streams.closed, 0);
    socket.close();
    EXPECT_TRUE(eventually([&] { return streams.closed == 1; }, milliseconds(1000))) << extra;
    streams.clear();
  }
}

TEST(HttpStream, AClientThatDoesNotReadIsCut) {
  Streams streams;
  HttpServerConfig config;
  config.limits.max_queued_bytes = 100'000;
  TestServer test(streams.router(), config);
  RawSocket socket = test.connect(4096);
  socket.send(get_request("/stream"));
  ResponseWriter writer = streams.wait();
  size_t written = 0;
  const std::string piece(10'000, 'x');
  while (written < 100'000'000 && writer.write(piece)) written += piece.size();
  EXPECT_LT(written, 50'000'000u);
  EXPECT_TRUE(eventually([&] { return streams.closed == 1; }));
  EXPECT_EQ(test.server->stats().slow_readers, 1u);
  // Nobody else is disturbed.
  RawSocket other = test.connect();
  other.send(get_request("/echo"));
  EXPECT_EQ(status_of(other.read_response()), 200);
}

TEST(HttpStream, AnAnswerThatIsNotTakenTimesOut) {
  Router router;
  router.add("GET", "/big", [](Request, ResponseWriter writer) {
    writer.respond({.body = std::string(30'000'000, 'x')});
  });
  HttpServerConfig config;
  config.limits.write_timeout = milliseconds(200);
  TestServer test(std::move(router), config);
  RawSocket idle_reader = test.connect(4096);
  idle_reader.send(get_request("/big"));
  EXPECT_TRUE(eventually([&] { return test.server->stats().slow_readers == 1; }));
  RawSocket reader = test.connect();
  reader.send(get_request("/big", "Connection: close\r\n"));
  EXPECT_GT(reader.read_to_end().size(), 30'000'000u);
}

TEST(HttpStream, TwoHundredAtOnce) {
  constexpr size_t kStreams = 200;
  constexpr int kPieces = 50;
  Streams streams;
  HttpServerConfig config;
  config.io_threads = 2;
  TestServer test(streams.router(), config);
  std::vector<RawSocket> sockets;
  for (size_t i = 0; i < kStreams; ++i) {
    sockets.push_back(test.connect());
    sockets.back().send(get_request("/stream", "Connection: close\r\n"));
  }
  std::vector<ResponseWriter> writers;
  for (size_t i = 0; i < kStreams; ++i) writers.push_back(streams.wait(i));
  std::thread engine([&] {
    for (int piece = 0; piece < kPieces; ++piece)
      for (ResponseWriter& writer : writers) writer.write(sse_data(std::to_string(piece)));
    for (ResponseWriter& writer : writers) writer.end();
  });
  for (RawSocket& socket : sockets) {
    const std::string all = socket.read_to_end();
    size_t at = 0;
    for (int piece = 0; piece < kPieces; ++piece) {
      at = all.find("data: " + std::to_string(piece) + "\n\n", at);
      ASSERT_NE(at, std::string::npos) << piece;
    }
    EXPECT_TRUE(all.ends_with("0\r\n\r\n"));
  }
  engine.join();
  EXPECT_EQ(streams.closed, 0);
}

TEST(HttpStream, CancelStorm) {
  Streams streams;
  HttpServerConfig config;
  config.io_threads = 2;
  TestServer test(streams.router(), config);
  constexpr int kRounds = 300;
  std::atomic<bool> all_sent{false};
  std::thread engine([&] {
    // Requests whose client is gone before their turn never reach the handler.
    for (size_t i = 0; !all_sent || i < streams.size();) {
      if (i >= streams.size()) {
        std::this_thread::yield();
        continue;
      }
      ResponseWriter writer = streams.wait(i);
      for (int piece = 0; piece < 20 && writer.write("data: x\n\n"); ++piece) {
      }
      if (i++ % 2 == 0) writer.end();
    }
  });
  for (int i = 0; i < kRounds; ++i) {
    RawSocket socket = test.connect();
    socket.send(get_request("/stream"));
    if (i % 3 == 0) socket.receive(milliseconds(100));
    if (i % 5 == 0) socket.reset();
  }
  EXPECT_TRUE(eventually([&] { return test.server->stats().open_connections == 0; }));
  all_sent = true;
  engine.join();
  streams.clear();
  EXPECT_TRUE(eventually([&] { return test.server->stats().open_connections == 0; }));
}

TEST(HttpLifetime, GracefulStopLetsAnswersFinish) {
  Streams streams;
  TestServer test(streams.router());
  RawSocket idle = test.connect();
  RawSocket busy = test.connect();
  busy.send(get_request("/stream"));
  ResponseWriter writer = streams.wait();
  busy.read_until("\r\n\r\n");
  std::thread stopper([&] { test.server->stop(std::chrono::seconds(10)); });
  idle.read_to_end();
  EXPECT_TRUE(idle.ended()) << "idle connections end at once";
  EXPECT_FALSE(RawSocket(test.port).connected()) << "no new connections";
  EXPECT_TRUE(writer.write("last words"));
  EXPECT_TRUE(writer.end());
  EXPECT_TRUE(busy.read_to_end().ends_with("last words\r\n0\r\n\r\n"));
  busy.close();
  stopper.join();
  EXPECT_EQ(streams.closed, 0);
  EXPECT_FALSE(writer.write("x"));
}

TEST(HttpLifetime, DeadlineCutsWhatIsLeft) {
  Streams streams;
  TestServer test(streams.router());
  RawSocket socket = test.connect();
  socket.send(get_request("/later"));
  ResponseWriter writer = streams.wait();
  const auto begin = std::chrono::steady_clock::now();
  test.server->stop(milliseconds(100));
  EXPECT_GE(since(begin), milliseconds(100));
  EXPECT_LT(since(begin), milliseconds(2000));
  EXPECT_EQ(streams.closed, 1);
  EXPECT_FALSE(writer.respond({}));
  test.server.reset();
  EXPECT_FALSE(writer.respond({})) << "a writer may outlive the server";
}

TEST(HttpLifetime, NothingIsLeftBehind) {
  const size_t threads = count_own("task");
  const size_t descriptors = count_own("fd");
  for (int i = 0; i < 5; ++i) {
    Streams streams;
    TestServer test(streams.router());
    RawSocket socket = test.connect();
    socket.send(get_request("/stream"));
    streams.wait();
    RawSocket half = test.connect();
    half.send("GET /");
  }
  EXPECT_TRUE(eventually([&] { return count_own("task") == threads; }));
  EXPECT_EQ(count_own("fd"), descriptors);
}

TEST(HttpLifetime, BusyPortIsOneClearError) {
  TestServer first(echo_router());
  HttpServerConfig config;
  config.port = first.port;
  HttpServer second(config, echo_router(), {});
  const auto result = second.start();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(result.error().message.find(std::to_string(first.port)), std::string::npos);
  EXPECT_FALSE(result.error().hint.empty());
}

TEST(HttpLifetime, HostsThatCannotBeBound) {
  for (const char* host : {"not a host", "203.0.113.1"}) {
    HttpServerConfig config;
    config.host = host;
    config.port = 0;
    HttpServer server(config, echo_router(), {});
    EXPECT_FALSE(server.start()) << host;
  }
}

TEST(HttpLifetime, ThePortIsFreeAgainAfterStop) {
  uint16_t port = 0;
  for (int i = 0; i < 3; ++i) {
    HttpServerConfig config;
    config.port = port;
    HttpServer server(config, echo_router(), {});
    const auto started = server.start();
    ASSERT_TRUE(started) << started.error().to_line();
    port = *started;
    RawSocket socket(port);
    socket.send(get_request("/echo"));
    EXPECT_EQ(status_of(socket.read_response()), 200);
  }
}

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

TEST(HttpLifetime, IdleCostsNothing) {
  Streams streams;
  TestServer test(streams.router());
  std::vector<RawSocket> sockets;
  for (int i = 0; i < 50; ++i) {
    sockets.push_back(test.connect());
    sockets.back().send(get_request("/stream"));
  }
  streams.wait(49);
  std::this_thread::sleep_for(milliseconds(50));
  const double before = cpu_seconds();
  std::this_thread::sleep_for(milliseconds(1000));
  EXPECT_LT(cpu_seconds() - before, 0.02);
}

}  // namespace
}  // namespace tandem::net
