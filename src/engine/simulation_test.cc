// The engine's state under random loads, without threads: every invariant at every step, every
// token against the truth. TANDEM_SIMULATION_STEPS sets the length (default 100,000).

#include <gtest/gtest.h>

#include <cstdlib>

#include "engine/engine_state.h"
#include "engine/engine_test_util.h"
#include "engine/fake_drafts.h"

namespace tandem::engine {
namespace {

int64_t simulation_steps() {
  const char* text = std::getenv("TANDEM_SIMULATION_STEPS");
  return text != nullptr ? std::atoll(text) : 100'000;
}

struct World {
  std::string name;
  EngineConfig config;
  FakeExecutorOptions executor;
  unsigned arrivals_one_in = 3;
  unsigned aborts_one_in = 25;
  unsigned failures_one_in = 0;
  unsigned deadlines_one_in = 0;
  int32_t poison_token = -1;
  int32_t drafts_right_percent = 0;  // with config.max_drafts > 0
};

class Simulation {
 public:
  Simulation(const World& world, unsigned seed)
      : world_(world),
        config_(world.config),
        random_(seed),
        hasher_(kv::PrefixHasher::create({42}).value()),
        truths_(std::make_shared<FakeTruths>(config_)),
        drafts_(config_, truths_, world.drafts_right_percent),
        state_(config_,
               hasher_.clone().value(),
               world.executor.copies_blocks,
               world.executor.host_blocks,
               &drafts_),
        controls_(std::make_shared<FakeControls>()),
        executor_(config_, world.executor, controls_) {
    controls_->poison_token = world.poison_token;
  }

  void run(int64_t steps) {
    for (int64_t i = 0; i < steps && !::testing::Test::HasFatalFailure(); ++i) {
      now_ += std::chrono::milliseconds(1);
      arrive_and_abort(/*open=*/true);
      round();
    }
    for (int i = 0; i < 100'000 && !state_.idle(); ++i) round();
    if (::testing::Test::HasFatalFailure()) return;
    ASSERT_TRUE(state_.idle());
    check_ended();
    ASSERT_TRUE(live_.empty());
    ASSERT_EQ(state_.counters().queued, 0);
    ASSERT_EQ(state_.blocks().pool().free_blocks(), config_.blocks);
    state_.refresh_gauges();
    ASSERT_EQ(state_.counters().free_host_blocks, world_.executor.host_blocks);
  }

  const EngineCounters& counters() const { return state_.counters(); }
  uint64_t digest() const { return digest_; }
  int64_t rounds_without_launch() const { return dry_; }

 private:
  void arrive_and_abort(bool open) {
    if (open && live_.size() < 20 && random_() % world_.arrivals_one_in == 0) {
      Request request = random_request(random_, config_, std::to_string(next_id_++));
      if (world_.deadlines_one_in > 0 && random_() % world_.deadlines_one_in == 0)
        request.deadline = now_ + std::chrono::milliseconds(random_() % 60);
      auto live = make_live_request(config_, request, hasher_);
      ASSERT_TRUE(live) << live.error().to_line();
      live_.emplace(request.id, request);
      if (config_.max_drafts > 0) truths_->add(request);
      state_.add(std::move(*live));
    }
    if (!live_.empty() && random_() % world_.aborts_one_in == 0) {
      auto victim = live_.begin();
      std::advance(victim, static_cast<int64_t>(random_() % live_.size()));
      const int32_t choice = random_() % 2 == 0 ? -1 : 0;
      state_.abort(victim->first, choice);
    }
    if (world_.failures_one_in > 0 && random_() % world_.failures_one_in == 0)
      (random_() % 2 == 0 ? controls_->fail_launch : controls_->fail_collect) =
          controls_->launches.load();
  }

  bool launch() {
    const Plan plan = state_.plan(now_);
    Plan again;
    schedule(state_.view(), state_.budgets(), now_, again);
    EXPECT_TRUE(plan.same_decisions(again));
    EXPECT_LE(plan.tokens, config_.max_num_batched_tokens);
    for (const PlanEntry& e : plan.entries)
      digest_ =
          digest_ * 1099511628211u + static_cast<uint64_t>(e.index * 131 + e.start * 7 + e.count +
                                                           e.hits * 17 + e.drafts * 29);
    const bool has_rows = state_.apply(now_);
    for (const TransferOrder& order : state_.transfer_orders())
      EXPECT_TRUE(executor_.start_transfer(order));
    if (!has_rows) return false;
    EXPECT_EQ(state_.blocks().pool().free_blocks(), plan.pool.free_blocks());
    Expected<void> done;
    if (!state_.copies().empty()) done = executor_.copy_blocks(state_.copies());
    if (done) done = executor_.launch(state_.batch());
    if (!done) state_.launch_failed(done.error());
    return done.has_value();
  }

  void round() {
    bool launched = false;
    while (state_.in_flight() < executor_.depth() && launch()) launched = true;
    if (state_.transferring()) {
      reports_.clear();
      executor_.finished_transfers(!launched && state_.in_flight() == 0, reports_);
      for (const TransferReport& report : reports_)
        state_.transfer_ended(report.id, report.ok, now_);
    } else if (!launched && state_.in_flight() == 0 && !state_.idle()) {
      ++dry_;
    }
    ASSERT_EQ(controls_->complaint(), "");
    if (state_.in_flight() > 0) {
      const auto done = executor_.collect(result_);
      if (done)
        state_.collected(result_, now_);
      else
        state_.collect_failed(done.error());
    }
    ASSERT_TRUE(state_.consistent());
    check_ended();
  }

  void check_ended() {
    for (const std::string& id : state_.ended()) {
      const auto found = live_.find(id);
      ASSERT_NE(found, live_.end());
      auto& sink = static_cast<RecordingSink&>(*found->second.sink);
      ASSERT_EQ(sink.finished(), found->second.choices);
      for (int32_t c = 0; c < found->second.choices; ++c)
        expect_truth(config_, found->second, c, sink.events(c));
      truths_->remove(id);
      live_.erase(found);
    }
    state_.ended().clear();
  }

  const World& world_;
  const EngineConfig config_;
  std::mt19937 random_;
  kv::PrefixHasher hasher_;
  const std::shared_ptr<FakeTruths> truths_;
  FakeDrafts drafts_;
  EngineState state_;
  std::shared_ptr<FakeControls> controls_;
  FakeExecutor executor_;
  model::StepResult result_;
  std::vector<TransferReport> reports_;
  TimePoint now_{};
  std::map<std::string, Request> live_;
  int next_id_ = 0;
  uint64_t digest_ = 0;
  int64_t dry_ = 0;
};

void add_worlds_with_drafts(std::vector<World>& list, const World& tiny, const World& bad_swap) {
  World drafts = tiny;
  drafts.name = "Drafts";
  drafts.config.max_drafts = 3;
  drafts.drafts_right_percent = 70;
  list.push_back(drafts);
  drafts.name = "DraftsRoomyLongRuns";
  drafts.config.blocks = 64;
  drafts.config.max_drafts = 9;
  drafts.config.max_num_batched_tokens = 64;
  drafts.drafts_right_percent = 95;
  list.push_back(drafts);
  World deep = drafts;
  deep.name = "DraftsDepth2FailuresAndDeadlines";
  deep.executor.depth = 2;
  deep.executor.copies_blocks = true;
  deep.config.blocks = 14;
  deep.config.max_drafts = 5;
  deep.config.long_prefill_threshold = 5;
  deep.drafts_right_percent = 60;
  deep.failures_one_in = 60;
  deep.deadlines_one_in = 6;
  deep.poison_token = 29;
  list.push_back(deep);
  World swap = bad_swap;
  swap.name = "DraftsSwapsThatFailDepth2";
  swap.config.max_drafts = 6;
  swap.drafts_right_percent = 50;
  list.push_back(swap);
  World budget = tiny;
  budget.name = "DraftsTinyBudgetOneSeat";
  budget.config.max_num_batched_tokens = 3;
  budget.config.max_num_seqs = 1;
  budget.config.blocks = 3;
  budget.config.max_drafts = 4;
  budget.drafts_right_percent = 80;
  list.push_back(budget);
}

std::vector<World> worlds() {
  std::vector<World> list;
  list.push_back({.name = "Roomy", .config = small_config()});
  World tiny{.name = "TinyPool", .config = small_config()};
  tiny.config.blocks = 11;
  list.push_back(tiny);
  World deep = tiny;
  deep.name = "TinyPoolDepth2";
  deep.executor.depth = 2;
  list.push_back(deep);
  World copy = deep;
  copy.name = "CopyingDepth2";
  copy.executor.copies_blocks = true;
  copy.config.blocks = 30;
  list.push_back(copy);
  World plain = copy;
  plain.name = "NoPrefixCacheTinyBudget";
  plain.config.prefix_caching = false;
  plain.config.max_num_batched_tokens = 3;
  plain.config.max_num_seqs = 3;
  plain.config.max_prompt_logprob_rows = 1;
  list.push_back(plain);
  World failing = deep;
  failing.name = "FailuresAndDeadlines";
  failing.failures_one_in = 40;
  failing.deadlines_one_in = 3;
  failing.poison_token = 29;
  failing.config.long_prefill_threshold = 5;
  list.push_back(failing);
  World swap = tiny;
  swap.name = "Swap";
  swap.executor.host_blocks = 40;
  list.push_back(swap);
  World bad_swap = deep;
  bad_swap.name = "SwapsThatFailDepth2";
  bad_swap.config.blocks = 14;
  bad_swap.executor.host_blocks = 9;
  bad_swap.config.preemption = PreemptionMode::kSwap;
  bad_swap.executor.transfer_polls = 5;
  bad_swap.executor.transfer_failures_one_in = 3;
  bad_swap.failures_one_in = 60;
  bad_swap.deadlines_one_in = 6;
  list.push_back(bad_swap);
  add_worlds_with_drafts(list, tiny, bad_swap);
  World one_block = tiny;
  one_block.name = "OneSeat";
  one_block.config.max_num_seqs = 1;
  one_block.config.blocks = 2;
  list.push_back(one_block);
  return list;
}

class SimulationTest : public ::testing::TestWithParam<World> {};

TEST_P(SimulationTest, EveryStepIsSoundAndEveryTokenTrue) {
  const int64_t steps = simulation_steps() / static_cast<int64_t>(worlds().size());
  Simulation simulation(GetParam(), 7);
  simulation.run(steps);
  const EngineCounters& c = simulation.counters();
  RecordProperty("preemptions", std::to_string(c.preemptions));
  std::printf(
      "steps %llu shared %llu preemptions %llu hits %llu/%llu forks %llu copies %llu stop "
      "%llu length %llu abort %llu error %llu timeouts %llu dry %lld swaps %llu/%llu failed %llu "
      "drafts %llu tokens %llu accepted %llu\n",
      (unsigned long long)c.steps,
      (unsigned long long)c.shared_steps,
      (unsigned long long)c.preemptions,
      (unsigned long long)c.prefix_hits,
      (unsigned long long)c.prefix_queries,
      (unsigned long long)c.forks,
      (unsigned long long)c.block_copies,
      (unsigned long long)c.finished_stop,
      (unsigned long long)c.finished_length,
      (unsigned long long)c.finished_abort,
      (unsigned long long)c.finished_error,
      (unsigned long long)c.timeouts,
      (long long)simulation.rounds_without_launch(),
      (unsigned long long)c.swaps_out,
      (unsigned long long)c.swaps_in,
      (unsigned long long)c.swaps_failed,
      (unsigned long long)c.drafts,
      (unsigned long long)c.draft_tokens,
      (unsigned long long)c.accepted_tokens);
  EXPECT_EQ(c.accepted_tokens > 0, GetParam().config.max_drafts > 0);
  EXPECT_EQ(c.accepted_tokens < c.draft_tokens, GetParam().config.max_drafts > 0);
  EXPECT_EQ(c.swaps_out > 0, GetParam().executor.host_blocks > 0);
  EXPECT_GT(c.finished_stop, 0u);
  EXPECT_GT(c.finished_abort, 0u);
}

TEST_P(SimulationTest, SameSeedSamePlans) {
  const int64_t steps = std::min<int64_t>(2000, simulation_steps());
  Simulation a(GetParam(), 3);
  Simulation b(GetParam(), 3);
  a.run(steps);
  b.run(steps);
  EXPECT_EQ(a.digest(), b.digest());
  EXPECT_NE(a.digest(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Worlds,
                         SimulationTest,
                         ::testing::ValuesIn(worlds()),
                         [](const auto& param_info) { return param_info.param.name; });

}  // namespace
}  // namespace tandem::engine
