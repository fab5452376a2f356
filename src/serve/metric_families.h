#pragma once
// Plain counters as metric families. Pure. Private to serve: the only headers with prometheus-cpp's
// types are this one's.

#include <prometheus/metric_family.h>

#include <string>
#include <utility>
#include <vector>

#include "engine/counters.h"
#include "net/http_server.h"

namespace tandem::serve {

using MetricLabels = std::vector<std::pair<std::string, std::string>>;
using MetricFamilies = std::vector<prometheus::MetricFamily>;

// vLLM's names; `labels` are on every sample.
MetricFamilies vllm_families(const engine::EngineCounters& counters, const MetricLabels& labels);

struct EngineState {
  bool healthy = true;
  TimePoint now{};
};
// tandem's own.
MetricFamilies tandem_families(const engine::EngineCounters& counters,
                               const EngineState& state,
                               const MetricLabels& labels);
MetricFamilies http_families(const net::HttpServerStats& stats);
// Memory, CPU time, descriptors, as client libraries name them; what cannot be read is left out.
MetricFamilies process_families(int64_t start_time_unix_s);

// A gauge of 1 whose labels are facts.
prometheus::MetricFamily info_family(std::string name, std::string help, MetricLabels labels);

}  // namespace tandem::serve
