#include "serve/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/summary.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <mutex>

#include "serve/health.h"
#include "serve/metric_families.h"

namespace tandem::serve {
namespace {

using Buckets = prometheus::Histogram::BucketBoundaries;

// All bounds are vLLM's.
const Buckets kFirstTokenSeconds = {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                                    1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
const Buckets kTokenSeconds = {
    .01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80};
const Buckets kRequestSeconds = {.3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
const Buckets kChoices = {1, 2, 5, 10, 20};
// The instrumentation of FastAPI that vLLM uses.
const Buckets kHttpSeconds = {.1, .5, 1};
const Buckets kHttpSecondsFine = {.01, .025, .05, .075, .1,  .25, .5,  .75, 1,  1.5, 2,
                                  2.5, 3,    3.5, 4,    4.5, 5,   7.5, 10,  30, 60};

// 1, 2, 5, 10, … up to `most`.
Buckets decades(int64_t most) {
  Buckets out;
  for (int64_t power = 1; power <= most; power *= 10) {
    for (const int64_t step : {1, 2, 5}) {
      if (step * power <= most) out.push_back(static_cast<double>(step * power));
    }
  }
  return out;
}

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

const char* name_of(engine::FinishReason reason) {
  switch (reason) {
    case engine::FinishReason::kStop:
      return "stop";
    case engine::FinishReason::kLength:
      return "length";
    case engine::FinishReason::kRepetition:
      return "repetition";
    case engine::FinishReason::kAbort:
      return "abort";
    case engine::FinishReason::kNone:
    case engine::FinishReason::kError:
      break;
  }
  return "error";
}

// Probes and scrapes are left out, as in vLLM.
bool is_probe(std::string_view route) {
  static constexpr std::array kProbes = {
      "/metrics", "/health", "/ready", "/load", "/ping", "/version"};
  return std::find(kProbes.begin(), kProbes.end(), route) != kProbes.end();
}

// Methods are the client's words; a label must not be.
const char* method_label(std::string_view method) {
  static constexpr std::array kMethods = {
      "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"};
  for (const char* known : kMethods) {
    if (method == known) return known;
  }
  return "other";
}

const char* status_label(int status) {
  static constexpr std::array kClasses = {"closed", "1xx", "2xx", "3xx", "4xx", "5xx"};
  return kClasses[static_cast<size_t>(std::clamp(status / 100, 0, 5))];
}

}  // namespace

struct Metrics::Registry {
  Registry(MetricsConfig c, const engine::Engine& e, const Clock& k)
      : config(std::move(c)),
        engine(e),
        clock(k),
        labels{{"engine", "0"}, {"model_name", config.model_name}},
        first_token(histogram(
            "vllm:time_to_first_token_seconds", "Arrival to first token.", kFirstTokenSeconds)),
        next_token(histogram(
            "vllm:inter_token_latency_seconds", "Time between tokens of a choice.", kTokenSeconds)),
        per_token(histogram("vllm:request_time_per_output_token_seconds",
                            "A choice's mean time per token after the first.",
                            kTokenSeconds)),
        total(histogram("vllm:e2e_request_latency_seconds", "Arrival to end.", kRequestSeconds)),
        queued(histogram(
            "vllm:request_queue_time_seconds", "Arrival to first step.", kRequestSeconds)),
        computed(histogram(
            "vllm:request_inference_time_seconds", "First step to last token.", kRequestSeconds)),
        prefill(histogram(
            "vllm:request_prefill_time_seconds", "First step to first token.", kRequestSeconds)),
        decode(
            histogram("vllm:request_decode_time_seconds", "First to last token.", kRequestSeconds)),
        prompt_tokens(histogram("vllm:request_prompt_tokens",
                                "Prompt tokens of a choice.",
                                decades(config.max_model_len))),
        output_tokens(histogram("vllm:request_generation_tokens",
                                "Tokens that a choice drew.",
                                decades(config.max_model_len))),
        longest_output(histogram("vllm:request_max_num_generation_tokens",
                                 "Tokens of a request's longest choice.",
                                 decades(config.max_model_len))),
        max_tokens(histogram("vllm:request_params_max_tokens",
                             "Output limit of a choice.",
                             decades(config.max_model_len))),
        prefilled(histogram("vllm:request_prefill_kv_computed_tokens",
                            "Prompt tokens that were computed, not found in the cache.",
                            decades(config.max_model_len))),
        choices(histogram("vllm:request_params_n", "Choices of a request.", kChoices)),
        success(prometheus::BuildCounter()
                    .Name("vllm:request_success_total")
                    .Help("Choices that ended, by reason.")
                    .Register(registry)),
        http_requests(prometheus::BuildCounter()
                          .Name("http_requests_total")
                          .Help("Requests by method, status and handler.")
                          .Register(registry)),
        http_bytes(prometheus::BuildSummary()
                       .Name("http_response_size_bytes")
                       .Help("Bytes of answers by handler.")
                       .Register(registry)),
        http_seconds(prometheus::BuildHistogram()
                         .Name("http_request_duration_seconds")
                         .Help("Time of requests by handler, in few buckets.")
                         .Register(registry)),
        http_seconds_fine(prometheus::BuildHistogram()
                              .Name("http_request_duration_highr_seconds")
                              .Help("Time of all requests, in many buckets.")
                              .Register(registry)
                              .Add({}, kHttpSecondsFine)) {
    for (const char* reason : {"stop", "length", "abort", "error", "repetition"}) ended(reason);
  }

  prometheus::Histogram& histogram(const char* name, const char* help, const Buckets& buckets) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add(
        {labels.begin(), labels.end()}, buckets);
  }
  prometheus::Counter& ended(const char* reason) {
    prometheus::Labels all(labels.begin(), labels.end());
    all["finished_reason"] = reason;
    return success.Add(all);
  }

  prometheus::Registry registry;
  const MetricsConfig config;
  const engine::Engine& engine;
  const Clock& clock;
  const MetricLabels labels;
  const int64_t start_time = unix_seconds();

  prometheus::Histogram &first_token, &next_token, &per_token, &total, &queued, &computed, &prefill,
      &decode, &prompt_tokens, &output_tokens, &longest_output, &max_tokens, &prefilled, &choices;
  prometheus::Family<prometheus::Counter>& success;
  prometheus::Family<prometheus::Counter>& http_requests;
  prometheus::Family<prometheus::Summary>& http_bytes;
  prometheus::Family<prometheus::Histogram>& http_seconds;
  prometheus::Histogram& http_seconds_fine;

  mutable std::mutex mutex;  // guards http_source
  std::function<net::HttpServerStats()> http_source;
};

Metrics::Metrics(MetricsConfig config, const engine::Engine& engine, const Clock& clock)
    : registry_(std::make_unique<Registry>(std::move(config), engine, clock)) {}

Metrics::~Metrics() = default;

void Metrics::on_first_token(Duration since_arrival) {
  registry_->first_token.Observe(seconds(since_arrival));
}

void Metrics::on_next_token(Duration since_last) {
  registry_->next_token.Observe(seconds(since_last));
}

void Metrics::on_choice_end(const frontend::ChoiceReport& report) {
  Registry& r = *registry_;
  r.ended(name_of(report.finish)).Increment();
  r.total.Observe(seconds(report.total));
  r.prompt_tokens.Observe(report.prompt_tokens);
  r.output_tokens.Observe(report.output_tokens);
  r.max_tokens.Observe(report.max_tokens);
  if (report.queued) r.queued.Observe(seconds(*report.queued));
  if (!report.prefill) return;
  r.prefill.Observe(seconds(*report.prefill));
  r.decode.Observe(seconds(*report.decode));
  r.computed.Observe(seconds(*report.computed));
  r.prefilled.Observe(report.prompt_tokens - report.cached_tokens);
  const int32_t gaps = report.output_tokens - 1;
  r.per_token.Observe(gaps > 0 ? seconds(*report.decode) / gaps : 0.0);
}

void Metrics::on_generation_end(int32_t choices, int32_t longest_output) {
  registry_->choices.Observe(choices);
  registry_->longest_output.Observe(longest_output);
}

void Metrics::on_http(const net::RequestSummary& request, const net::AnswerFacts& answer) {
  if (is_probe(request.route)) return;
  Registry& r = *registry_;
  const std::string handler = request.route.empty() ? "none" : request.route;
  const char* method = method_label(request.method);
  r.http_requests
      .Add({{"handler", handler}, {"method", method}, {"status", status_label(answer.status)}})
      .Increment();
  r.http_seconds.Add({{"handler", handler}, {"method", method}}, kHttpSeconds)
      .Observe(seconds(answer.duration));
  r.http_seconds_fine.Observe(seconds(answer.duration));
  r.http_bytes.Add({{"handler", handler}}, prometheus::Summary::Quantiles{})
      .Observe(static_cast<double>(answer.body_bytes));
}

void Metrics::set_http_source(std::function<net::HttpServerStats()> source) {
  const std::lock_guard lock(registry_->mutex);
  registry_->http_source = std::move(source);
}

std::string Metrics::text() const {
  const Registry& r = *registry_;
  const engine::EngineCounters counters = r.engine.counters();
  const TimePoint now = r.clock.now();
  MetricFamilies all = vllm_families(counters, r.labels);
  const auto add = [&all](MetricFamilies more) {
    std::move(more.begin(), more.end(), std::back_inserter(all));
  };
  MetricLabels cache = {{"engine", "0"}};
  cache.insert(cache.end(), r.config.cache_info.begin(), r.config.cache_info.end());
  all.push_back(info_family("vllm:cache_config_info", "The KV cache.", std::move(cache)));
  add(r.registry.Collect());
  const bool healthy = is_healthy(counters, now, r.config.step_budget);
  add(tandem_families(counters, {.healthy = healthy, .now = now}, r.labels));
  all.push_back(info_family("tandem:build_info", "The program.", {{"version", r.config.version}}));
  {
    const std::lock_guard lock(r.mutex);
    if (r.http_source) add(http_families(r.http_source()));
  }
  add(process_families(r.start_time));
  return prometheus::TextSerializer().Serialize(all);
}

}  // namespace tandem::serve
