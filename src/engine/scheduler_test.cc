// The scheduler's rules one by one. The simulation test proves that they hold together.

#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include "engine/engine_state.h"
#include "engine/engine_test_util.h"

namespace tandem::engine {
namespace {

class SchedulerTest : public ::testing::Test {
 protected:
  void make(EngineConfig config, int32_t depth = 1) {
    config_ = std::make_unique<EngineConfig>(config);
    hasher_ = std::make_unique<kv::PrefixHasher>(kv::PrefixHasher::create({1}).value());
    state_ = std::make_unique<EngineState>(*config_, hasher_->clone().value(), false);
    executor_ = std::make_unique<FakeExecutor>(
        *config_, FakeExecutorOptions{.depth = depth}, std::make_shared<FakeControls>());
  }
  void add(const Request& request) {
    state_->add(make_live_request(*config_, request, *hasher_).value());
  }
  const Plan& plan() { return state_->plan(now_); }
  void launch() {
    plan();
    ASSERT_TRUE(state_->apply(now_));
    ASSERT_TRUE(executor_->launch(state_->batch()));
  }
  void collect() {
    ASSERT_TRUE(executor_->collect(result_));
    state_->collected(result_, now_);
  }
  void step() {
    launch();
    collect();
  }

  TimePoint now_{};
  std::unique_ptr<EngineConfig> config_;
  std::unique_ptr<kv::PrefixHasher> hasher_;
  std::unique_ptr<EngineState> state_;
  std::unique_ptr<FakeExecutor> executor_;
  model::StepResult result_;
};

TEST_F(SchedulerTest, RunningFirstThenWaitingWithOneBudget) {
  make(small_config());  // 32 tokens a step
  add(plain_request("a", std::vector<int32_t>(20, 1), 5));
  add(plain_request("b", std::vector<int32_t>(30, 2), 5));
  ASSERT_EQ(plan().entries.size(), 2u);
  EXPECT_EQ(state_->plan(now_).entries[0].count, 20);
  EXPECT_TRUE(state_->plan(now_).entries[0].samples);
  EXPECT_EQ(state_->plan(now_).entries[1].count, 12);  // a chunk
  EXPECT_FALSE(state_->plan(now_).entries[1].samples);
  step();
  ASSERT_EQ(plan().entries.size(), 2u);
  EXPECT_EQ(state_->plan(now_).entries[0].count, 1);
  EXPECT_EQ(state_->plan(now_).entries[0].start, 20);
  EXPECT_EQ(state_->plan(now_).entries[1].start, 12);
  EXPECT_EQ(state_->plan(now_).entries[1].count, 18);
  EXPECT_FALSE(state_->plan(now_).entries[1].admitted);
}

TEST_F(SchedulerTest, PriorityThenArrival) {
  EngineConfig config = small_config();
  config.max_num_seqs = 1;
  make(config);
  add(plain_request("a", {1}, 1));
  Request urgent = plain_request("b", {2}, 1);
  urgent.priority = -1;
  add(urgent);
  step();
  EXPECT_EQ(static_cast<RecordingSink&>(*urgent.sink).finished(), 1);
}

TEST_F(SchedulerTest, LongPrefillThreshold) {
  EngineConfig config = small_config();
  config.long_prefill_threshold = 7;
  make(config);
  add(plain_request("a", std::vector<int32_t>(20, 1), 5));
  EXPECT_EQ(plan().entries[0].count, 7);
}

TEST_F(SchedulerTest, PreemptsTheLastOfTheOrder) {
  EngineConfig config = small_config();
  config.blocks = 4;  // 16 tokens
  config.prefix_caching = false;
  make(config);
  add(plain_request("a", {1, 2, 3, 4, 5, 6, 7}, 9));
  add(plain_request("b", {1, 2, 3, 4, 5, 6, 7}, 9));
  step();
  EXPECT_EQ(plan().entries.size(), 2u);  // position 7 fits
  step();
  EXPECT_EQ(state_->plan(now_).keep_running, 1);
  EXPECT_EQ(state_->plan(now_).entries.size(), 1u);
  step();
  EXPECT_EQ(state_->counters().preemptions, 1u);
  state_->refresh_gauges();
  EXPECT_EQ(state_->counters().waiting, 1);
}

TEST_F(SchedulerTest, ARequestThatDoesNotFitBesideOthersWaits) {
  EngineConfig config = small_config();
  config.blocks = 5;
  make(config);
  add(plain_request("a", std::vector<int32_t>(9, 1), 3));   // 3 blocks
  add(plain_request("b", std::vector<int32_t>(11, 2), 3));  // 3 blocks
  add(plain_request("c", {3}, 3));                          // would fit, but may not overtake
  EXPECT_EQ(plan().entries.size(), 1u);
}

TEST_F(SchedulerTest, PlaceholderNamesTheRowOfTheStepBefore) {
  make(small_config(), 2);
  add(plain_request("a", {1, 2, 3}, 5));
  add(plain_request("b", {4, 5, 6}, 5));
  launch();
  plan();
  ASSERT_TRUE(state_->apply(now_));
  EXPECT_EQ(state_->batch().token_ids, (std::vector<int32_t>{~0, ~1}));
  EXPECT_EQ(state_->batch().positions, (std::vector<int32_t>{3, 3}));
  ASSERT_TRUE(executor_->launch(state_->batch()));
  collect();
  collect();
}

TEST_F(SchedulerTest, PenaltiesWaitForTheTokenAtDepthTwo) {
  make(small_config(), 2);
  Request r = plain_request("a", {1, 2, 3}, 5);
  r.sampling.frequency_penalty = 1;
  add(r);
  launch();
  EXPECT_TRUE(plan().entries.empty());
  collect();
  EXPECT_EQ(plan().entries.size(), 1u);
}

TEST_F(SchedulerTest, SegmentsAreCutWhereTheFormChanges) {
  make(small_config());  // S = 8, expanded from prompts of 12
  add(plain_request("a", std::vector<int32_t>(19, 1), 5));
  add(plain_request("b", std::vector<int32_t>(11, 2), 5));
  plan();
  ASSERT_TRUE(state_->apply(now_));
  const auto& segments = state_->batch().segments;
  ASSERT_EQ(segments.size(), 3u);
  EXPECT_EQ(segments[0].rows, 16);
  EXPECT_EQ(segments[0].form, kernels::MlaForm::kExpanded);
  EXPECT_EQ(segments[1].rows, 3);
  EXPECT_EQ(segments[1].first_position, 16);
  EXPECT_EQ(segments[1].form, kernels::MlaForm::kAbsorbed);
  EXPECT_EQ(segments[2].rows, 11);
  EXPECT_EQ(segments[2].sequence, 1);
  EXPECT_EQ(segments[2].form, kernels::MlaForm::kAbsorbed);
}

TEST(SwapCosts, TakesTheCheaper) {
  SwapCosts costs;
  EXPECT_TRUE(costs.swap_is_cheaper(100, 2));  // not measured: tried
  costs.recompute_ns_per_token = 10;
  costs.transfer_ns_per_block = 100;
  EXPECT_TRUE(costs.swap_is_cheaper(100, 2));
  EXPECT_FALSE(costs.swap_is_cheaper(30, 2));
  costs.mode = PreemptionMode::kSwap;
  EXPECT_TRUE(costs.swap_is_cheaper(30, 2));
  costs.mode = PreemptionMode::kRecompute;
  EXPECT_FALSE(costs.swap_is_cheaper(100, 2));
}

TEST(FormRule, PositionAndPromptLengthAlone) {
  FormRule rule;
  EXPECT_EQ(rule.form(0, 100'000), kernels::MlaForm::kAbsorbed);  // 0 = never
  rule.expand_from = 512;
  EXPECT_EQ(rule.form(0, 511), kernels::MlaForm::kAbsorbed);
  EXPECT_EQ(rule.form(511, 512), kernels::MlaForm::kExpanded);
  EXPECT_EQ(rule.form(512, 1023), kernels::MlaForm::kAbsorbed);
  EXPECT_EQ(rule.form(1023, 1024), kernels::MlaForm::kExpanded);
}

}  // namespace
}  // namespace tandem::engine
