// The engine thread's own cost of a step: plan, apply and batch, results. Nothing is computed. With
// drafts a step gives up to four tokens a sequence, so that its cost is that of so many.

#include <benchmark/benchmark.h>

#include "engine/engine_state.h"

namespace tandem::engine {
namespace {

class NullSink final : public EventSink {
 public:
  void on_event(TokenEvent event) override { benchmark::DoNotOptimize(event.token); }
};

constexpr int32_t kToken = 5;

// Guesses that are all right, or all wrong.
class ConstantDrafts final : public DraftSource {
 public:
  explicit ConstantDrafts(int32_t token) : token_(token) {}
  void propose(const DraftQuery& query, std::vector<int32_t>& drafts) noexcept override {
    drafts.resize(static_cast<size_t>(query.most), token_);
  }

 private:
  const int32_t token_;
};

EngineConfig bench_config(int32_t sequences) {
  EngineConfig config;
  config.blocks = sequences * 64;
  config.vocabulary = 129280;
  config.max_model_len = 1 << 17;
  config.max_num_seqs = sequences;
  config.max_num_batched_tokens = 8192;
  config.max_queue = 1 << 20;
  return config;
}

Request bench_request(int64_t number, const std::shared_ptr<EventSink>& sink) {
  Request request;
  request.id = std::to_string(number);
  for (int32_t i = 0; i < 1000; ++i)
    request.prompt.push_back(static_cast<int32_t>((number * 7919 + i * i) % 100'000));
  request.sampling.max_tokens = 1000;
  request.eos_ids = {1};
  request.sink = sink;
  return request;
}

void steady_decode(benchmark::State& bench, bool whole, DraftSource* drafts = nullptr) {
  const auto sequences = static_cast<int32_t>(bench.range(0));
  EngineConfig config = bench_config(sequences);
  if (drafts != nullptr) config.max_drafts = 3;
  auto hasher = kv::PrefixHasher::create({}).value();
  EngineState state(config, hasher.clone().value(), false, 0, drafts);
  const std::shared_ptr<EventSink> sink = std::make_shared<NullSink>();
  int64_t number = 0;
  model::StepResult result;
  const auto fill = [&] {
    while (state.counters().requests <
           state.counters().finished_length + static_cast<uint64_t>(sequences))
      state.add(make_live_request(config, bench_request(number++, sink), hasher).value());
    state.ended().clear();
  };
  const auto results = [&] {
    result.rows.resize(static_cast<size_t>(state.batch().rows()));
    for (auto& row : result.rows) row.id = kToken;
    state.collected(result, {});
  };
  fill();
  for (int i = 0; i < 200; ++i) {  // all prompts are computed
    state.plan({});
    state.apply({});
    results();
  }
  for (auto _ : bench) {
    benchmark::DoNotOptimize(state.plan({}).tokens);
    if (!whole) continue;
    state.apply({});
    results();
    fill();
  }
  bench.counters["tokens_per_step"] = static_cast<double>(state.batch().tokens());
}

void schedule_decode(benchmark::State& bench) { steady_decode(bench, false); }
void whole_step(benchmark::State& bench) { steady_decode(bench, true); }

void whole_step_drafts_accepted(benchmark::State& bench) {
  ConstantDrafts drafts(kToken);
  steady_decode(bench, true, &drafts);
}
void whole_step_drafts_rejected(benchmark::State& bench) {
  ConstantDrafts drafts(kToken + 1);
  steady_decode(bench, true, &drafts);
}

BENCHMARK(schedule_decode)->Arg(1)->Arg(32)->Arg(256)->Unit(benchmark::kMicrosecond);
BENCHMARK(whole_step)->Arg(1)->Arg(32)->Arg(256)->Unit(benchmark::kMicrosecond);
BENCHMARK(whole_step_drafts_accepted)->Arg(1)->Arg(32)->Arg(256)->Unit(benchmark::kMicrosecond);
BENCHMARK(whole_step_drafts_rejected)->Arg(1)->Arg(32)->Arg(256)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tandem::engine

BENCHMARK_MAIN();
