#pragma once
// What /metrics says, under vLLM's names, types, labels and buckets, so that dashboards and
// autoscalers made for it work; tandem's own figures are named tandem:… (docs/metrics.md).
//
// Figures of the engine are read when somebody asks, so they are right when it is idle, too. Labels
// come from configuration and fixed lists, never from clients.
//
// Owner: the program; outlives the frontend and the server. Every function from any thread.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "frontend/generation_observer.h"
#include "net/http_server.h"

namespace tandem::serve {

struct MetricsConfig {
  std::string model_name;
  std::string version;
  int64_t max_model_len = 0;
  // Labels of vllm:cache_config_info, beside the engine's.
  std::vector<std::pair<std::string, std::string>> cache_info;
  Duration step_budget = std::chrono::seconds(120);  // as ApiConfig's
};

class Metrics final : public frontend::GenerationObserver {
 public:
  // `engine` and `clock` outlive it.
  Metrics(MetricsConfig config, const engine::Engine& engine, const Clock& clock);
  ~Metrics() override;
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  void on_first_token(Duration since_arrival) override;
  void on_next_token(Duration since_last) override;
  void on_choice_end(const frontend::ChoiceReport& report) override;
  void on_generation_end(int32_t choices, int32_t longest_output) override;

  void on_http(const net::RequestSummary& request, const net::AnswerFacts& answer);
  // Where the server's own counters come from; none before it is set and after it is set to null.
  void set_http_source(std::function<net::HttpServerStats()> source);

  // Prometheus' text format 0.0.4.
  std::string text() const;

 private:
  struct Registry;
  std::unique_ptr<Registry> registry_;
};

}  // namespace tandem::serve
