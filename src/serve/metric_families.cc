#include "serve/metric_families.h"

#include <chrono>
#include <limits>

#include "system/process_info.h"

namespace tandem::serve {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

class FamilyList {
 public:
  explicit FamilyList(const MetricLabels& labels) : labels_(labels) {}

  template <class Number>
  FamilyList& counter(const char* name, const char* help, Number value) {
    begin(name, help, MetricType::Counter);
    return sample(value);
  }
  template <class Number>
  FamilyList& gauge(const char* name, const char* help, Number value) {
    begin(name, help, MetricType::Gauge);
    return sample(value);
  }
  // Then one sample() for each label value.
  FamilyList& begin(const char* name, const char* help, MetricType type) {
    families_.push_back({name, help, type, {}});
    return *this;
  }
  template <class Number>
  FamilyList& sample(Number value, const char* label = nullptr, const char* label_value = nullptr) {
    ClientMetric metric = labelled();
    if (label) metric.label.push_back({label, label_value});
    if (families_.back().type == MetricType::Counter) {
      metric.counter.value = static_cast<double>(value);
    } else {
      metric.gauge.value = static_cast<double>(value);
    }
    families_.back().metric.push_back(std::move(metric));
    return *this;
  }
  // `powers`: buckets at the powers of two from `low` to `high`, and 1.
  FamilyList& histogram(const char* name,
                        const char* help,
                        const engine::PowerHistogram& values,
                        uint64_t low,
                        uint64_t high) {
    begin(name, help, MetricType::Histogram);
    ClientMetric metric = labelled();
    metric.histogram.sample_count = values.count;
    metric.histogram.sample_sum = static_cast<double>(values.sum);
    uint64_t so_far = 0;
    for (size_t b = 0; b + 1 < engine::PowerHistogram::kBuckets; ++b) {
      so_far += values.counts[b];
      const uint64_t bound = uint64_t{1} << b;
      if (bound == 1 || (bound >= low && bound <= high))
        metric.histogram.bucket.push_back({so_far, static_cast<double>(bound)});
    }
    metric.histogram.bucket.push_back({values.count, std::numeric_limits<double>::infinity()});
    families_.back().metric.push_back(std::move(metric));
    return *this;
  }
  MetricFamilies take() { return std::move(families_); }

 private:
  ClientMetric labelled() const {
    ClientMetric metric;
    for (const auto& [name, value] : labels_) metric.label.push_back({name, value});
    return metric;
  }

  const MetricLabels& labels_;
  MetricFamilies families_;
};

double used_part(int32_t free, int32_t total) {
  return total > 0 ? static_cast<double>(total - free) / total : 0.0;
}

}  // namespace

MetricFamilies vllm_families(const engine::EngineCounters& c, const MetricLabels& labels) {
  FamilyList out(labels);
  out.gauge("vllm:num_requests_running", "Sequences in the current step.", c.running)
      .gauge("vllm:num_requests_waiting", "Sequences that wait for a step.", c.waiting)
      .begin("vllm:num_requests_waiting_by_reason",
             "Sequences that wait, by reason.",
             MetricType::Gauge)
      .sample(c.waiting, "reason", "capacity")
      .sample(0, "reason", "deferred")
      .gauge("vllm:kv_cache_usage_perc",
             "Part of the KV blocks in use; 1 is all.",
             used_part(c.free_blocks, c.total_blocks))
      .begin("vllm:engine_sleep_state", "1 for the state that holds.", MetricType::Gauge)
      .sample(1, "sleep_state", "awake")
      .sample(0, "sleep_state", "weights_offloaded")
      .sample(0, "sleep_state", "discard_all");
  out.counter("vllm:prefix_cache_queries_total",
              "Prompt tokens looked up in the prefix cache.",
              c.prefix_queries)
      .counter(
          "vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache.", c.prefix_hits)
      .counter("vllm:num_preemptions_total", "Preemptions of sequences.", c.preemptions)
      .counter("vllm:prompt_tokens_total", "Prompt tokens of admitted requests.", c.prompt_tokens)
      .counter("vllm:prompt_tokens_cached_total",
               "Prompt tokens that the prefix cache had.",
               c.prompt_tokens_cached)
      .begin("vllm:prompt_tokens_by_source_total",
             "Prompt tokens, by where their KV came from.",
             MetricType::Counter)
      .sample(c.prompt_tokens - c.prompt_tokens_cached, "source", "local_compute")
      .sample(c.prompt_tokens_cached, "source", "local_cache_hit")
      .sample(0, "source", "external_kv_transfer")
      .counter("vllm:generation_tokens_total", "Tokens that were drawn.", c.generation_tokens)
      .counter("vllm:corrupted_requests_total",
               "Requests that ended because the model gave NaN.",
               c.corrupted)
      .histogram("vllm:iteration_tokens_total", "Tokens in a step.", c.tokens_per_step, 8, 16384);
  return out.take();
}

MetricFamilies tandem_families(const engine::EngineCounters& c,
                               const EngineState& state,
                               const MetricLabels& labels) {
  FamilyList out(labels);
  out.gauge("tandem:healthy", "1 while /health is 200.", state.healthy ? 1 : 0)
      .gauge("tandem:draining", "1 after SIGTERM.", c.draining ? 1 : 0)
      .gauge("tandem:step_age_seconds",
             "Time since the step loop last went round while it had work; 0 when idle.",
             c.busy ? seconds(state.now - c.last_step) : 0.0)
      .counter("tandem:steps_total", "Steps of the engine.", c.steps)
      .counter("tandem:step_seconds_total", "Time in steps.", seconds(c.step_time_sum))
      .counter("tandem:computed_tokens_total",
               "Token rows that were computed, recomputed ones too.",
               c.computed_tokens)
      .histogram("tandem:step_sequences", "Sequences in a step.", c.sequences_per_step, 2, 1024)
      .counter("tandem:requests_total", "Requests that the engine accepted.", c.requests)
      .counter("tandem:request_deadlines_total", "Requests past their deadline.", c.timeouts)
      .counter("tandem:device_failures_total", "Steps that a device failed.", c.device_failures)
      .begin("tandem:swaps_total", "Preempted sequences to and from the host.", MetricType::Counter)
      .sample(c.swaps_out, "direction", "out")
      .sample(c.swaps_in, "direction", "in")
      .counter("tandem:swap_failures_total", "Swaps that failed.", c.swaps_failed)
      .counter("tandem:block_copies_total", "KV blocks copied on write.", c.block_copies);
  out.begin("tandem:kv_blocks", "KV blocks, by state.", MetricType::Gauge)
      .sample(c.total_blocks - c.free_blocks, "state", "used")
      .sample(c.free_blocks, "state", "free")
      .gauge("tandem:kv_cached_blocks",
             "KV blocks that the prefix cache can find, free ones too.",
             c.cached_blocks)
      .gauge("tandem:kv_host_usage_perc",
             "Part of the host tier's blocks in use; 1 is all.",
             used_part(c.free_host_blocks, c.total_host_blocks))
      .counter("tandem:draft_tokens_total", "Draft tokens checked.", c.draft_tokens)
      .counter("tandem:accepted_tokens_total", "Draft tokens accepted.", c.accepted_tokens);
  return out.take();
}

MetricFamilies http_families(const net::HttpServerStats& s) {
  const MetricLabels none;
  FamilyList out(none);
  out.gauge("tandem:http_connections", "Open connections.", s.open_connections)
      .gauge(
          "tandem:http_body_bytes", "Bytes of request bodies being read or waiting.", s.body_bytes)
      .counter("tandem:http_accepted_connections_total",
               "Connections since the start.",
               s.accepted_connections)
      .counter("tandem:http_refused_connections_total",
               "Connections refused because there were too many.",
               s.refused_connections)
      .counter("tandem:http_malformed_requests_total",
               "Requests that are no HTTP or over a limit.",
               s.malformed_requests)
      .counter("tandem:http_timeouts_total", "Requests that came too slowly.", s.timeouts)
      .counter("tandem:http_slow_readers_total",
               "Connections cut because the client did not read.",
               s.slow_readers)
      .counter("tandem:http_client_closes_total",
               "Connections that clients closed before their answer was complete.",
               s.client_closes);
  return out.take();
}

MetricFamilies process_families(int64_t start_time_unix_s) {
  const MetricLabels none;
  FamilyList out(none);
  out.gauge("process_start_time_seconds", "When the server began, since 1970.", start_time_unix_s)
      .counter("process_cpu_seconds_total",
               "CPU time of all threads.",
               std::chrono::duration<double>(system::process_cpu_time()).count());
  if (const auto info = system::read_process_info()) {
    out.gauge("process_resident_memory_bytes", "Memory in use.", info->resident_bytes)
        .gauge("process_open_fds", "Open descriptors.", info->open_files)
        .gauge("process_threads", "Threads.", info->threads);
  }
  return out.take();
}

MetricFamily info_family(std::string name, std::string help, MetricLabels labels) {
  ClientMetric metric;
  for (auto& [label, value] : labels) metric.label.push_back({std::move(label), std::move(value)});
  metric.gauge.value = 1;
  return {std::move(name), std::move(help), MetricType::Gauge, {std::move(metric)}};
}

}  // namespace tandem::serve
