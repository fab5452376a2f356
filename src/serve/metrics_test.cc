#include "serve/metrics.h"

#include <gtest/gtest.h>

#include "engine/fake_executor.h"
#include "serve/metric_families.h"

namespace tandem::serve {
namespace {

engine::EngineConfig small_engine() {
  engine::EngineConfig config;
  config.blocks = 8;
  config.vocabulary = 256;
  config.max_model_len = 256;
  return config;
}

// A registry over an engine that nobody asks anything.
struct Fixture {
  ManualClock clock;
  std::unique_ptr<engine::Engine> engine =
      engine::Engine::create(
          small_engine(),
          std::make_unique<engine::FakeExecutor>(small_engine(),
                                                 engine::FakeExecutorOptions{},
                                                 std::make_shared<engine::FakeControls>()),
          clock)
          .value();
  Metrics metrics{{.model_name = "a\"model\n",
                   .version = "1.2.3",
                   .max_model_len = 256,
                   .cache_info = {{"block_size", "64"}}},
                  *engine,
                  clock};

  bool has(const std::string& line) const {
    return ("\n" + metrics.text()).find("\n" + line + "\n") != std::string::npos;
  }
};

const std::string kLabels = R"({engine="0",model_name="a\"model\n"})";
std::string labels_and(const std::string& more) {
  return R"({engine="0",)" + more + R"(,model_name="a\"model\n"})";
}

TEST(Metrics, AnIdleServerHasEveryFamily) {
  const Fixture f;
  EXPECT_TRUE(f.has("# TYPE vllm:num_requests_running gauge"));
  EXPECT_TRUE(f.has("vllm:num_requests_running" + kLabels + " 0"));
  EXPECT_TRUE(f.has("# TYPE vllm:prompt_tokens_total counter"));
  EXPECT_TRUE(f.has("# TYPE vllm:request_success_total counter"));
  EXPECT_TRUE(f.has("# TYPE vllm:iteration_tokens_total histogram"));
  EXPECT_TRUE(f.has(R"(vllm:cache_config_info{engine="0",block_size="64"} 1)"));
  EXPECT_TRUE(f.has(R"(tandem:build_info{version="1.2.3"} 1)"));
}

TEST(Metrics, AChoiceIsCountedOnceUnderItsReason) {
  Fixture f;
  frontend::ChoiceReport report;
  report.finish = engine::FinishReason::kLength;
  report.prompt_tokens = 7;
  report.cached_tokens = 3;
  report.output_tokens = 5;
  report.max_tokens = 5;
  report.total = std::chrono::milliseconds(900);
  report.queued = std::chrono::milliseconds(100);
  report.prefill = std::chrono::milliseconds(400);
  report.decode = std::chrono::milliseconds(400);
  report.computed = std::chrono::milliseconds(800);
  f.metrics.on_first_token(std::chrono::milliseconds(500));
  f.metrics.on_next_token(std::chrono::milliseconds(100));
  f.metrics.on_choice_end(report);
  f.metrics.on_generation_end(1, 5);
  const auto success = [&](const char* reason, int value) {
    return f.has("vllm:request_success_total" +
                 labels_and(std::string("finished_reason=\"") + reason + "\"") + " " +
                 std::to_string(value));
  };
  EXPECT_TRUE(success("length", 1)) << f.metrics.text();
  EXPECT_TRUE(success("stop", 0));
  EXPECT_TRUE(f.has("vllm:request_prompt_tokens_sum" + kLabels + " 7"));
  EXPECT_TRUE(f.has("vllm:request_generation_tokens_sum" + kLabels + " 5"));
  EXPECT_TRUE(f.has("vllm:request_prefill_kv_computed_tokens_sum" + kLabels + " 4"));
  EXPECT_TRUE(f.has("vllm:request_time_per_output_token_seconds_sum" + kLabels + " 0.1"));
  EXPECT_TRUE(f.has("vllm:request_params_n_count" + kLabels + " 1"));
}

TEST(Metrics, AnAbortInTheQueueHasNoTimes) {
  Fixture f;
  frontend::ChoiceReport report;
  report.finish = engine::FinishReason::kAbort;
  f.metrics.on_choice_end(report);
  EXPECT_TRUE(f.has("vllm:request_success_total" + labels_and("finished_reason=\"abort\"") + " 1"));
  EXPECT_TRUE(f.has("vllm:request_queue_time_seconds_count" + kLabels + " 0"));
  EXPECT_TRUE(f.has("vllm:e2e_request_latency_seconds_count" + kLabels + " 1"));
}

TEST(Metrics, WordsOfClientsAreNoLabels) {
  Fixture f;
  for (int i = 0; i < 20; ++i) {
    net::RequestSummary request;
    request.method = "METHOD" + std::to_string(i);
    request.path = "/path/" + std::to_string(i);
    f.metrics.on_http(request, {.status = 404});
  }
  EXPECT_TRUE(f.has(R"(http_requests_total{handler="none",method="other",status="4xx"} 20)"));
  EXPECT_EQ(f.metrics.text().find("METHOD"), std::string::npos);
  EXPECT_EQ(f.metrics.text().find("/path"), std::string::npos);
  net::RequestSummary probe;
  probe.method = "GET";
  probe.route = "/metrics";
  f.metrics.on_http(probe, {.status = 200});
  EXPECT_EQ(f.metrics.text().find("handler=\"/metrics\""), std::string::npos);
}

TEST(Metrics, StepSizesBecomeCumulativeBuckets) {
  engine::EngineCounters counters;
  for (const uint64_t tokens : {1, 1, 5, 8, 9, 16, 20000}) counters.tokens_per_step.add(tokens);
  const MetricFamilies families = vllm_families(counters, {});
  const auto family = std::find_if(families.begin(), families.end(), [](const auto& f) {
    return f.name == "vllm:iteration_tokens_total";
  });
  ASSERT_NE(family, families.end());
  const auto& histogram = family->metric[0].histogram;
  const auto count_to = [&](double bound) {
    for (const auto& bucket : histogram.bucket)
      if (bucket.upper_bound == bound) return static_cast<int64_t>(bucket.cumulative_count);
    return int64_t{-1};
  };
  EXPECT_EQ(count_to(1), 2);
  EXPECT_EQ(count_to(2), -1) << "not one of vLLM's bounds";
  EXPECT_EQ(count_to(8), 4);
  EXPECT_EQ(count_to(16), 6);
  EXPECT_EQ(count_to(16384), 6);
  EXPECT_EQ(histogram.sample_count, 7U);
  EXPECT_EQ(histogram.bucket.back().cumulative_count, 7U);
}

TEST(Metrics, BusyShareOfTheCache) {
  engine::EngineCounters counters;
  counters.total_blocks = 8;
  counters.free_blocks = 6;
  const MetricFamilies families = vllm_families(counters, {});
  for (const auto& family : families) {
    if (family.name == "vllm:kv_cache_usage_perc") {
      EXPECT_EQ(family.metric[0].gauge.value, 0.25);
      return;
    }
  }
  FAIL() << "no such family";
}

}  // namespace
}  // namespace tandem::serve
