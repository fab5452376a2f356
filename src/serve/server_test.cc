// The server as a whole over real HTTP, with an executor that can be told to fail.

#include <gtest/gtest.h>

#include <thread>

#include "engine/fake_executor.h"
#include "net/http_client.h"
#include "serve/api_server.h"
#include "text/tokenizer.h"
#include "text/tokenizer_spec.h"

namespace tandem::serve {
namespace {

// Each byte is a token.
text::Tokenizer byte_tokenizer() {
  text::TokenizerSpec spec;
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_TRUE(spec.vocabulary.add(byte, std::string(1, static_cast<char>(byte)), true));
  }
  spec.vocabulary.finish();
  auto tokenizer = text::Tokenizer::build(std::move(spec), {});
  EXPECT_TRUE(tokenizer);
  return std::move(*tokenizer);
}

engine::EngineConfig engine_config(int32_t max_queue) {
  engine::EngineConfig config;
  config.blocks = 64;
  config.vocabulary = 256;
  config.max_model_len = 1024;
  config.max_num_seqs = 4;
  config.max_queue = max_queue;
  return config;
}

struct TestServer {
  explicit TestServer(const ApiConfig& api = {}, int32_t max_queue = 64)
      : engine(engine::Engine::create(
                   engine_config(max_queue),
                   std::make_unique<engine::FakeExecutor>(
                       engine_config(max_queue), engine::FakeExecutorOptions{}, controls),
                   clock)
                   .value()),
        metrics({.model_name = "m", .version = "1", .max_model_len = 1024, .cache_info = {}},
                *engine,
                clock),
        frontend(frontend_config(), tokenizer, nullptr, *engine, clock),
        server(api_config(api), frontend, *engine, metrics) {
    const auto bound = server.start();
    EXPECT_TRUE(bound);
    port = bound.value_or(0);
  }
  ~TestServer() {
    controls->stalled = false;
    engine->drain(clock.now());
    server.stop(std::chrono::seconds(1));
  }

  frontend::FrontendConfig frontend_config() {
    frontend::FrontendConfig config;
    config.limits.max_model_len = 1024;
    config.limits.vocabulary = 256;
    config.observer = &metrics;
    return config;
  }
  ApiConfig api_config(ApiConfig config) const {
    config.http.port = 0;
    config.model_names = {"m"};
    config.version = "1";
    config.clock = &clock;
    config.step_budget = std::chrono::seconds(30);
    return config;
  }

  net::Response ask(const std::string& method,
                    const std::string& target,
                    const std::string& body = {},
                    net::Headers headers = {}) const {
    net::HttpClient client({.port = port});
    auto answer = client.request(
        {.method = method, .target = target, .headers = std::move(headers), .body = body});
    EXPECT_TRUE(answer) << answer.error().message;
    return answer.value_or(net::Response{.status = 0});
  }
  int status(const std::string& target) const { return ask("GET", target).status; }

  ManualClock clock;
  std::shared_ptr<engine::FakeControls> controls = std::make_shared<engine::FakeControls>();
  text::Tokenizer tokenizer = byte_tokenizer();
  std::unique_ptr<engine::Engine> engine;
  Metrics metrics;
  frontend::Frontend frontend;
  ApiServer server;
  uint16_t port = 0;
};

template <class Condition>
bool eventually(const Condition& condition) {
  for (int i = 0; i < 5000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

const std::string kCompletion = R"({"prompt": "abc", "max_tokens": 5, "ignore_eos": true})";

TEST(Server, HealthTurnsFalseWhenTheStepLoopStalls) {
  TestServer test;
  test.controls->stalled = true;
  std::thread client(
      [&] { EXPECT_EQ(test.ask("POST", "/v1/completions", kCompletion).status, 200); });
  ASSERT_TRUE(eventually([&] { return test.controls->collects > 0; }));
  test.clock.advance(std::chrono::seconds(29));
  for (const char* probe : {"/health", "/ready", "/ping"}) EXPECT_EQ(test.status(probe), 200);
  test.clock.advance(std::chrono::seconds(2));
  for (const char* probe : {"/health", "/ready", "/ping"}) EXPECT_EQ(test.status(probe), 503);
  EXPECT_NE(test.metrics.text().find("tandem:step_age_seconds{engine=\"0\",model_name=\"m\"} 31"),
            std::string::npos)
      << test.metrics.text();
  test.controls->stalled = false;
  client.join();
  EXPECT_TRUE(eventually([&] { return test.status("/health") == 200; }));
  // Idle, however long: alive.
  test.clock.advance(std::chrono::hours(5));
  EXPECT_EQ(test.status("/health"), 200);
}

TEST(Server, HealthTurnsFalseWhenTheDeviceKeepsFailing) {
  TestServer test;
  test.controls->fail_launch = -2;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(test.status("/health"), 200);
    EXPECT_EQ(test.ask("POST", "/v1/completions", kCompletion).status, 500);
  }
  EXPECT_TRUE(eventually([&] { return test.status("/health") == 503; }));
  test.controls->fail_launch = -1;
  EXPECT_EQ(test.ask("POST", "/v1/completions", kCompletion).status, 200);
  EXPECT_TRUE(eventually([&] { return test.status("/health") == 200; }));
}

TEST(Server, ADeadEngineIsNeitherHealthyNorReady) {
  TestServer test;
  test.controls->throws = true;
  EXPECT_EQ(test.ask("POST", "/v1/completions", kCompletion).status, 500);
  for (const char* probe : {"/health", "/ready", "/ping"})
    EXPECT_TRUE(eventually([&] { return test.status(probe) == 503; })) << probe;
  EXPECT_EQ(test.ask("POST", "/v1/completions", kCompletion).status, 503);
}

TEST(Server, NanEndsOneRequestAndIsCounted) {
  TestServer test;
  test.controls->poison_token = 'X';
  EXPECT_EQ(test.ask("POST", "/v1/completions", R"({"prompt": "aXb"})").status, 500);
  EXPECT_EQ(test.ask("POST", "/v1/completions", kCompletion).status, 200);
  EXPECT_TRUE(eventually([&] {
    const std::string text = test.ask("GET", "/metrics").body;
    return text.find("vllm:corrupted_requests_total{engine=\"0\",model_name=\"m\"} 1\n") !=
               std::string::npos &&
           text.find("finished_reason=\"error\",model_name=\"m\"} 1\n") != std::string::npos;
  }));
}

TEST(Server, AFullQueueIs503WithRetryAfter) {
  TestServer test({}, /*max_queue=*/1);
  test.controls->stalled = true;
  std::vector<std::thread> clients;
  const auto ask = [&] {
    clients.emplace_back(
        [&] { EXPECT_EQ(test.ask("POST", "/v1/completions", kCompletion).status, 200); });
  };
  ask();
  ASSERT_TRUE(eventually([&] { return test.controls->collects > 0; }));
  ask();
  ASSERT_TRUE(eventually([&] { return test.engine->counters().queued == 1; }));
  EXPECT_EQ(test.engine->counters().waiting, 1);
  const net::Response refused = test.ask("POST", "/v1/completions", kCompletion);
  EXPECT_EQ(refused.status, 503);
  EXPECT_TRUE(net::find_header(refused.headers, "retry-after"));
  EXPECT_EQ(test.ask("GET", "/load").body, R"({"server_load":2})");
  test.controls->stalled = false;
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(test.ask("GET", "/load").body, R"({"server_load":0})");
}

TEST(Server, AClientsIdIsALabelOfTheAnswer) {
  const TestServer test;
  const auto id_of = [&](const std::string& body, net::Headers headers) {
    const net::Response answer = test.ask("POST", "/v1/completions", body, std::move(headers));
    const auto json = parse_json(answer.body);
    return json && json->contains("id") ? (*json)["id"].get<std::string>() : answer.body;
  };
  const std::string with_field = R"({"prompt": "a", "max_tokens": 1, "request_id": "field-1"})";
  EXPECT_EQ(id_of(kCompletion, {{"x-request-id", "head-1"}}), "cmpl-head-1");
  EXPECT_EQ(id_of(with_field, {}), "cmpl-field-1");
  EXPECT_EQ(id_of(with_field, {{"x-request-id", "head-2"}}), "cmpl-head-2");
  EXPECT_NE(id_of(kCompletion, {}), id_of(kCompletion, {}));
  EXPECT_EQ(id_of(kCompletion, {{"x-request-id", "no blanks \"here\""}}).find("blanks"),
            std::string::npos);
  EXPECT_NE(id_of(R"({"prompt": "a", "request_id": "a b"})", {}).find("'request_id' must be"),
            std::string::npos);
}

TEST(Server, KeysGuardEveryRouteButTheProbes) {
  const std::vector<std::string> keys = {"secret"};
  ApiConfig api;
  api.access.keys = net::ApiKeys(keys);
  const TestServer test(api);
  for (const char* open : {"/health", "/ready", "/ping"}) EXPECT_EQ(test.status(open), 200) << open;
  for (const char* closed : {"/v1/models", "/metrics", "/load", "/version", "/nope"})
    EXPECT_EQ(test.status(closed), 401) << closed;
  EXPECT_EQ(test.ask("POST", "/invocations", kCompletion).status, 401);
  const net::Headers with_key = {{"authorization", "Bearer secret"}};
  EXPECT_EQ(test.ask("GET", "/nope", "", with_key).status, 404);
  EXPECT_EQ(test.ask("POST", "/invocations", kCompletion, with_key).status, 200);
  EXPECT_EQ(test.ask("GET", "/metrics", "", with_key).status, 200);
}

TEST(Server, PagesOfOtherOriginsSeeErrorsToo) {
  ApiConfig api;
  api.cors.origins = {"http://here"};
  const TestServer test(api);
  const auto origin_of = [&](const char* origin) {
    const net::Response answer = test.ask("POST", "/v1/completions", "{", {{"origin", origin}});
    EXPECT_EQ(answer.status, 400);
    return std::string(
        net::find_header(answer.headers, "access-control-allow-origin").value_or("(none)"));
  };
  EXPECT_EQ(origin_of("http://here"), "http://here");
  EXPECT_EQ(origin_of("http://there"), "(none)");
}

TEST(Server, DrainingIsNotReadyAtOnce) {
  TestServer test;
  test.server.begin_drain();
  EXPECT_EQ(test.status("/ready"), 503);
  EXPECT_EQ(test.status("/health"), 200);
}

}  // namespace
}  // namespace tandem::serve
