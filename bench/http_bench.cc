// What HTTP costs: CPU time of the server a request and a streamed token, without the model. The
// whole door is real (net, serve, frontend, the bundled model's tokenizer and template, the
// engine's thread and scheduler); only the device is left out: an executor that gives the next
// token after a fixed time. What the engine alone costs for the same work is measured beside it and
// taken off.
//   http_bench [all|requests|streams [STREAMS TOKENS STEP_MS]]      default: all 200 100 20
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "app/text_files.h"
#include "engine/engine.h"
#include "http_load.h"
#include "serve/api_server.h"
#include "serve/metrics.h"

namespace {

using namespace tandem;
using namespace tandem::bench;

constexpr int kRequests = 3000;
constexpr int kConnections = 32;
const char* const kModel = TANDEM_SOURCE_DIR "/models/tandem-tiny-v3";

// Every row draws an ordinary token; a step takes `step` of time and none of the CPU's.
class PacedExecutor final : public engine::Executor {
 public:
  PacedExecutor(std::chrono::microseconds step, const std::atomic<bool>& paced)
      : step_(step), paced_(paced) {}
  Expected<void> launch(const model::Batch& batch) override {
    rows_ = batch.rows();
    due_ = std::chrono::steady_clock::now() + step_;
    return {};
  }
  Expected<void> collect(model::StepResult& result) override {
    if (paced_) std::this_thread::sleep_until(due_);
    result.rows.resize(static_cast<size_t>(rows_));
    for (auto& row : result.rows) row = {.id = 70 + (next_++ % 400)};
    result.max_top_logprobs = 0;
    return {};
  }
  int depth() const override { return 1; }

 private:
  std::chrono::microseconds step_;
  const std::atomic<bool>& paced_;
  std::chrono::steady_clock::time_point due_{};
  int32_t rows_ = 0;
  int32_t next_ = 0;
};

// Counts what it is given.
class CountingSink final : public engine::EventSink {
 public:
  explicit CountingSink(int expected) : left_(expected) {}
  void on_event(engine::TokenEvent event) override {
    if (event.finish == engine::FinishReason::kNone) return;
    const std::lock_guard lock(mutex_);
    if (--left_ == 0) done_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return left_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable done_;
  int left_;
};

struct Bench {
  SteadyClock clock;
  std::atomic<bool> paced{false};
  app::TextFiles text;
  std::unique_ptr<engine::Engine> engine;
  std::unique_ptr<serve::Metrics> metrics;
  std::unique_ptr<frontend::Frontend> frontend;
  std::unique_ptr<serve::ApiServer> server;
  uint16_t port = 0;
  int64_t next_id = 0;

  Expected<void> start(int streams, std::chrono::milliseconds step) {
    TANDEM_ASSIGN(text, app::read_text_files(kModel));
    engine::EngineConfig config;
    config.blocks = 20'000;
    config.vocabulary = text.tokenizer->vocab_size();
    config.max_model_len = 4096;
    config.max_num_seqs = std::max(streams, 256);
    config.max_num_batched_tokens = 8192;
    TANDEM_ASSIGN(
        engine,
        engine::Engine::create(config, std::make_unique<PacedExecutor>(step, paced), clock));
    frontend::FrontendConfig front;
    front.limits.max_model_len = config.max_model_len;
    front.limits.vocabulary = config.vocabulary;
    front.special_tokens = text.special_tokens;
    front.eos_ids = {1};
    metrics = std::make_unique<serve::Metrics>(
        serve::MetricsConfig{.model_name = "tandem-tiny-v3", .max_model_len = config.max_model_len},
        *engine,
        clock);
    front.observer = metrics.get();
    frontend = std::make_unique<frontend::Frontend>(
        front, *text.tokenizer, text.chat_template.get(), *engine, clock);
    serve::ApiConfig api;
    api.http.port = 0;
    api.model_names = {"tandem-tiny-v3"};
    api.clock = &clock;
    server = std::make_unique<serve::ApiServer>(api, *frontend, *engine, *metrics);
    TANDEM_ASSIGN(port, server->start());
    return {};
  }

  // CPU seconds of the engine alone for `requests` at a time, `tokens` each.
  CpuTime engine_alone(int requests, int rounds, int tokens) {
    const CpuTime begin = cpu_time(RUSAGE_SELF);
    for (int round = 0; round < rounds; ++round) {
      const auto sink = std::make_shared<CountingSink>(requests);
      for (int i = 0; i < requests; ++i) {
        engine::Request request;
        request.id = fmt::format("bench-{}", next_id++);
        request.prompt.assign(20, 70);
        request.sampling.temperature = 0;
        request.sampling.max_tokens = tokens;
        request.sampling.ignore_eos = true;
        request.eos_ids = {1};
        request.sink = sink;
        if (const auto submitted = engine->submit(std::move(request)); !submitted) {
          fmt::print(stderr, "http_bench: {}\n", submitted.error().to_line());
          std::exit(1);
        }
      }
      sink->wait();
    }
    return cpu_time(RUSAGE_SELF) - begin;
  }
};

std::string post(std::string_view path, std::string_view body) {
  return fmt::format(
      "POST {} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: {}"
      "\r\n\r\n{}",
      path,
      body.size(),
      body);
}

std::string chat(int tokens, bool stream) {
  return post("/v1/chat/completions",
              fmt::format(R"({{"model":"tandem-tiny-v3","messages":[{{"role":"user","content":)"
                          R"("What is the capital of France?"}}],"max_tokens":{},)"
                          R"("ignore_eos":true,"temperature":0,"stream":{}}})",
                          tokens,
                          stream));
}

void print(const char* what, const CpuTime& time, double per, const char* goal = "") {
  const CpuTime us = time * (1e6 / per);
  fmt::print("{:<46} {:>8.2f} us  ({:.2f} user, {:.2f} kernel)  {}\n",
             what,
             us.sum(),
             us.user,
             us.kernel,
             goal);
}

void bench_requests(Bench& bench) {
  const std::string version = "GET /version HTTP/1.1\r\nHost: bench\r\n\r\n";
  for (const int connections : {1, kConnections}) {
    const int times = kRequests / connections;
    const double count = connections * times;
    run_load(bench.port, version, connections, times / 10 + 1);
    const CpuTime plain = run_load(bench.port, version, connections, times);
    run_load(bench.port, chat(1, false), connections, times / 10 + 1);
    const CpuTime whole = run_load(bench.port, chat(1, false), connections, times);
    const CpuTime alone = bench.engine_alone(connections, times, 1);
    fmt::print("requests, {} at a time\n", connections);
    print("  GET /version", plain, count);
    print("  chat, one token", whole, count);
    print("  of it the engine's thread", alone, count);
    print("  HTTP: a chat request without the engine", whole - alone, count, "goal 100");
  }
}

void bench_streams(Bench& bench, int streams, int tokens) {
  bench.paced = true;
  // The part of a stream that is there once is taken off by comparing two lengths.
  const int few = std::max(1, tokens / 10);
  const double extra = static_cast<double>(streams) * (tokens - few);
  run_load(bench.port, chat(few, true), streams, 1);
  const CpuTime short_cpu = run_load(bench.port, chat(few, true), streams, 1);
  const CpuTime long_cpu = run_load(bench.port, chat(tokens, true), streams, 1);
  const CpuTime short_alone = bench.engine_alone(streams, 1, few);
  const CpuTime long_alone = bench.engine_alone(streams, 1, tokens);
  bench.paced = false;
  const CpuTime whole = long_cpu - short_cpu;
  const CpuTime alone = long_alone - short_alone;
  fmt::print("streams, {} at a time, {} tokens each\n", streams, tokens);
  print("  a token, everything", whole, extra);
  print("  of it the engine's thread", alone, extra);
  print("  HTTP: a streamed token without the engine", whole - alone, extra, "goal 5");
}

int number(const char* text) { return std::max(1, std::atoi(text)); }

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "all";
  const int streams = argc > 2 ? number(argv[2]) : 200;
  const int tokens = argc > 3 ? number(argv[3]) : 100;
  const int step_ms = argc > 4 ? number(argv[4]) : 20;
  if (what != "all" && what != "requests" && what != "streams") {
    fmt::print(stderr, "http_bench: '{}' is not one of all, requests, streams\n", what);
    return 1;
  }
  Bench bench;
  if (const auto started = bench.start(streams, std::chrono::milliseconds(step_ms)); !started) {
    fmt::print(stderr, "http_bench: {}\n", started.error().to_line());
    return 1;
  }
  print("this machine: a bare send of 250 bytes", bare_send(250, streams, 100), 1);
  if (what != "streams") bench_requests(bench);
  if (what != "requests") bench_streams(bench, streams, tokens);
  bench.server->stop(std::chrono::seconds(1));
  bench.engine->drain(bench.clock.now());
  return 0;
}
