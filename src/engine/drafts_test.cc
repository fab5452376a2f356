// Speculation: what the scheduler does with drafts, and that answers are the same with them.

#include <gtest/gtest.h>

#include "engine/engine.h"
#include "engine/engine_test_util.h"
#include "engine/fake_drafts.h"

namespace tandem::engine {
namespace {

RecordingSink& sink_of(const Request& request) {
  return static_cast<RecordingSink&>(*request.sink);
}

// One step at a time.
class DraftSchedulingTest : public ::testing::Test {
 protected:
  void make(EngineConfig config, int32_t right_percent, int32_t depth = 1) {
    config_ = config;
    truths_ = std::make_shared<FakeTruths>(config_);
    drafts_ = std::make_unique<FakeDrafts>(config_, truths_, right_percent);
    hasher_ = std::make_unique<kv::PrefixHasher>(kv::PrefixHasher::create({1}).value());
    state_ =
        std::make_unique<EngineState>(config_, hasher_->clone().value(), false, 0, drafts_.get());
    executor_ =
        std::make_unique<FakeExecutor>(config_, FakeExecutorOptions{.depth = depth}, controls_);
  }
  void add(const Request& request) {
    truths_->add(request);
    state_->add(make_live_request(config_, request, *hasher_).value());
  }
  const Plan& plan() { return state_->plan({}); }
  void launch() {
    plan();
    ASSERT_TRUE(state_->apply({}));
    ASSERT_TRUE(executor_->launch(state_->batch()));
  }
  void collect() {
    ASSERT_TRUE(executor_->collect(result_));
    state_->collected(result_, {});
    ASSERT_TRUE(state_->consistent());
  }
  void step() {
    launch();
    collect();
  }
  // Steps until nothing is left.
  int32_t run() {
    int32_t steps = 0;
    for (; !state_->idle() && steps < 1000; ++steps) step();
    return steps;
  }

  EngineConfig config_;
  std::shared_ptr<FakeTruths> truths_;
  std::unique_ptr<FakeDrafts> drafts_;
  std::unique_ptr<kv::PrefixHasher> hasher_;
  std::unique_ptr<EngineState> state_;
  std::shared_ptr<FakeControls> controls_ = std::make_shared<FakeControls>();
  std::unique_ptr<FakeExecutor> executor_;
  model::StepResult result_;
};

EngineConfig config_with(int32_t max_drafts) {
  EngineConfig config = small_config();
  config.max_drafts = max_drafts;
  return config;
}

TEST_F(DraftSchedulingTest, AcceptedDraftsSaveSteps) {
  make(config_with(3), 100);
  const Request r = plain_request("a", {1, 2, 3}, 9);
  add(r);
  step();
  ASSERT_EQ(plan().entries.size(), 1u);
  EXPECT_EQ(plan().entries[0].start, 3);
  EXPECT_EQ(plan().entries[0].count, 4);
  EXPECT_EQ(plan().entries[0].drafts, 3);
  EXPECT_EQ(plan().tokens, 4);
  launch();
  EXPECT_EQ(state_->batch().positions, (std::vector<int32_t>{3, 4, 5, 6}));
  EXPECT_EQ(state_->batch().logits_rows, (std::vector<int32_t>{0, 1, 2, 3}));
  for (uint32_t i = 0; i < 4; ++i) EXPECT_EQ(state_->batch().sample_rows[i].position, 4 + i);
  collect();
  EXPECT_EQ(sink_of(r).events(0).size(), 5u);
  // 4 tokens are missing: the last of them is drawn by the row before it.
  EXPECT_EQ(run(), 1);
  expect_truth(config_, r, 0, sink_of(r).events(0));
  EXPECT_EQ(state_->counters().drafts, 2u);
  EXPECT_EQ(state_->counters().draft_tokens, 6u);
  EXPECT_EQ(state_->counters().accepted_tokens, 6u);
}

TEST_F(DraftSchedulingTest, RejectedDraftsAreRolledBackAndOverwritten) {
  make(config_with(3), 0);
  const Request r = plain_request("a", {1, 2, 3}, 30);
  add(r);
  step();
  for (int32_t length = 4; length < 32; ++length) {
    ASSERT_EQ(plan().entries.size(), 1u);
    EXPECT_EQ(plan().entries[0].start, length - 1);
    EXPECT_EQ(sink_of(r).events(0).size(), size_t(length - 3));
    step();
  }
  run();
  expect_truth(config_, r, 0, sink_of(r).events(0));
  EXPECT_GT(state_->counters().draft_tokens, 20u);
  EXPECT_EQ(state_->counters().accepted_tokens, 0u);
}

TEST_F(DraftSchedulingTest, OrdinaryRowsComeBeforeDrafts) {
  EngineConfig config = config_with(5);
  config.max_num_batched_tokens = 9;
  make(config, 100);
  add(plain_request("a", {1, 2, 3}, 20));
  add(plain_request("b", {4, 5, 6}, 20));
  add(plain_request("c", {7, 8, 9}, 20));
  step();
  ASSERT_EQ(plan().entries.size(), 3u);
  EXPECT_EQ(plan().tokens, 9);
  EXPECT_EQ(plan().entries[0].drafts, 5);
  EXPECT_EQ(plan().entries[1].drafts, 1);
  EXPECT_EQ(plan().entries[2].drafts, 0);
  run();
}

TEST_F(DraftSchedulingTest, DraftsPreemptNobody) {
  EngineConfig config = config_with(6);
  config.blocks = 4;  // of 4 tokens
  config.prefix_caching = false;
  make(config, 100);
  add(plain_request("a", {1, 2, 3, 4, 5}, 8));  // 2 blocks
  add(plain_request("b", {6, 7, 8, 9, 10}, 2));
  step();
  // Nothing is free: as many as fit the blocks that are held.
  ASSERT_EQ(plan().entries.size(), 2u);
  EXPECT_EQ(plan().keep_running, 2);
  EXPECT_EQ(plan().entries[0].drafts, 2);
  EXPECT_EQ(plan().entries[0].new_blocks, 0);
  EXPECT_EQ(plan().entries[1].drafts, 0);  // its last token
  step();
  EXPECT_EQ(state_->counters().preemptions, 0u);
  run();
}

TEST_F(DraftSchedulingTest, LongPrefillThresholdCountsDrafts) {
  EngineConfig config = config_with(6);
  config.long_prefill_threshold = 4;
  make(config, 100);
  add(plain_request("a", {1, 2, 3}, 20));
  step();
  EXPECT_EQ(plan().entries[0].count, 4);
}

TEST_F(DraftSchedulingTest, AtDepthTwoDraftsWaitForTheTokenAndNothingRunsBesideThem) {
  make(config_with(3), 100, 2);
  const Request r = plain_request("a", {1, 2, 3}, 20);
  add(r);
  launch();
  launch();  // with a placeholder: nobody has asked yet
  collect();
  EXPECT_TRUE(plan().entries.empty());  // the source has something to offer
  collect();
  ASSERT_EQ(plan().entries.size(), 1u);
  EXPECT_EQ(plan().entries[0].drafts, 3);
  launch();
  EXPECT_TRUE(plan().entries.empty());
  collect();
  EXPECT_EQ(sink_of(r).events(0).size(), 6u);
  run();
  expect_truth(config_, r, 0, sink_of(r).events(0));
}

// The wrong draft makes a row that has no token left to draw, or NaN: nobody looks at it.
TEST_F(DraftSchedulingTest, RowsBehindARejectedDraftMayBeInvalid) {
  make(config_with(3), 0);
  Request r = plain_request("a", {1, 2, 3}, 12);
  r.sampling.allowed_token_ids = {10, 20, 30, 40};
  r.sampling.bad_words = {{11, 10},
                          {11, 20},
                          {11, 30},
                          {11, 40},
                          {21, 10},
                          {21, 20},
                          {21, 30},
                          {21, 40},
                          {31, 10},
                          {31, 20},
                          {31, 30},
                          {31, 40},
                          {41, 10},
                          {41, 20},
                          {41, 30},
                          {41, 40}};
  add(r);
  run();
  EXPECT_GT(state_->counters().draft_tokens, 5u);
  EXPECT_EQ(state_->counters().corrupted, 0u);
  EXPECT_EQ(sink_of(r).events(0).size(), 12u);
  expect_truth(config_, r, 0, sink_of(r).events(0));
}

TEST_F(DraftSchedulingTest, TokensBeforeAnInvalidRowAreDelivered) {
  make(config_with(7), 100);
  const Request r = plain_request("a", {1, 2, 3}, 12);
  const int32_t poison = fake_answer(config_, r, 0)[3].token;
  controls_->poison_token = poison;
  add(r);
  run();
  const auto events = sink_of(r).events(0);
  ASSERT_EQ(events.back().finish, FinishReason::kError);
  EXPECT_EQ(events[events.size() - 2].token, poison);  // the row of this token gives NaN
  EXPECT_EQ(state_->counters().corrupted, 1u);
}

struct Outcome {
  std::vector<std::vector<std::vector<TokenEvent>>> events;  // by request and choice
  EngineCounters counters;
};

struct Case {
  std::string name;
  EngineConfig config = small_config();
  FakeExecutorOptions executor;
  std::vector<Request> requests;
};

// Through the engine's thread; every answer is held against the lone run, too.
Outcome answers(const Case& c, int32_t max_drafts, int32_t right_percent) {
  EngineConfig config = c.config;
  config.max_drafts = max_drafts;
  auto controls = std::make_shared<FakeControls>();
  auto truths = std::make_shared<FakeTruths>(config);
  const ManualClock clock;
  auto engine = Engine::create(config,
                               std::make_unique<FakeExecutor>(config, c.executor, controls),
                               clock,
                               std::make_unique<FakeDrafts>(config, truths, right_percent))
                    .value();
  Outcome outcome;
  std::vector<Request> requests = c.requests;
  for (Request& request : requests) {
    request.sink = std::make_shared<RecordingSink>();
    truths->add(request);
    EXPECT_TRUE(engine->submit(request));
  }
  for (const Request& request : requests) {
    EXPECT_TRUE(sink_of(request).wait_finished(request.choices));
    auto& choices = outcome.events.emplace_back();
    for (int32_t choice = 0; choice < request.choices; ++choice) {
      choices.push_back(sink_of(request).events(choice));
      expect_truth(config, request, choice, choices.back());
    }
  }
  engine->drain(clock.now() + std::chrono::seconds(1));
  outcome.counters = engine->counters();
  EXPECT_EQ(outcome.counters.free_blocks, outcome.counters.total_blocks);
  EXPECT_EQ(outcome.counters.running + outcome.counters.waiting, 0);
  EXPECT_EQ(controls->complaint(), "");
  return outcome;
}

void expect_same(const TokenEvent& a, const TokenEvent& b) {
  ASSERT_EQ(a.token, b.token);
  ASSERT_EQ(a.finish, b.finish);
  ASSERT_EQ(a.stop_token, b.stop_token);
  ASSERT_EQ(a.prompt_logprob_ids, b.prompt_logprob_ids);
  ASSERT_EQ(a.prompt_logprobs.size(), b.prompt_logprobs.size());
  ASSERT_EQ(a.logprobs.has_value(), b.logprobs.has_value());
  if (!a.logprobs) return;
  ASSERT_EQ(a.logprobs->logprob, b.logprobs->logprob);
  ASSERT_EQ(a.logprobs->rank, b.logprobs->rank);
  ASSERT_EQ(a.logprobs->top, b.logprobs->top);
}

std::vector<Request> mixed_requests(unsigned seed, const EngineConfig& config, int count) {
  std::mt19937 random(seed);
  std::vector<Request> requests;
  for (int i = 0; i < count; ++i)
    requests.push_back(random_request(random, config, std::to_string(i)));
  return requests;
}

std::vector<Case> cases() {
  std::vector<Case> list;
  Case mixed{.name = "Mixed"};
  mixed.requests = mixed_requests(1, mixed.config, 60);
  list.push_back(mixed);
  Case deep = mixed;
  deep.name = "MixedDepth2Copies";
  deep.executor = {.depth = 2, .copies_blocks = true};
  list.push_back(deep);
  Case preempted{.name = "Preempted"};
  preempted.config.blocks = 12;
  preempted.config.preemption = PreemptionMode::kRecompute;
  for (int i = 0; i < 8; ++i)
    preempted.requests.push_back(plain_request(std::to_string(i), {i, 2, 3, 4, 5}, 35));
  list.push_back(preempted);
  Case swapped = preempted;
  swapped.name = "SwappedDepth2";
  swapped.config.preemption = PreemptionMode::kSwap;
  swapped.executor = {.depth = 2, .host_blocks = 20, .transfer_failures_one_in = 3};
  list.push_back(swapped);
  Case chunked{.name = "ChunkedPrefill"};
  chunked.config.max_num_batched_tokens = 7;
  chunked.requests = mixed_requests(2, chunked.config, 30);
  list.push_back(chunked);
  Case prefix{.name = "PrefixHits"};
  for (int i = 0; i < 20; ++i) {
    std::vector<int32_t> prompt(size_t(16 + i % 3), 7);
    Request r = plain_request(std::to_string(i), prompt, 20);
    r.sampling.top_logprobs = 2;
    r.choices = 1 + i % 3;
    r.sampling.temperature = 0.8f;  // seeded
    r.sampling.seed = 99;
    prefix.requests.push_back(r);
  }
  list.push_back(prefix);
  // Every end inside a run of drafts: any token stops, after each number of tokens; and max_tokens.
  Case ends{.name = "EndsInsideARunOfDrafts"};
  for (int i = 0; i < 40; ++i) {
    Request r = plain_request(std::to_string(i), {i, 1, 2}, 1 + i % 20);
    if (i % 2 == 0) {
      r.sampling.min_tokens = r.sampling.max_tokens / 2;
      for (int32_t id = 0; id < 50; id += 1 + i % 7) r.sampling.stop_token_ids.push_back(id);
    }
    if (i % 4 == 1) r.sampling.ignore_eos = false;
    ends.requests.push_back(r);
  }
  ends.config.max_num_batched_tokens = 100;
  list.push_back(ends);
  return list;
}

class DraftsChangeNothing : public ::testing::TestWithParam<Case> {};

TEST_P(DraftsChangeNothing, AnswersAreThoseWithoutDrafts) {
  const Case& c = GetParam();
  const Outcome plain = answers(c, 0, 100);
  EXPECT_EQ(plain.counters.draft_tokens, 0u);
  for (const int32_t right_percent : {0, 50, 100}) {
    for (const int32_t max_drafts : {1, 4, 9}) {
      SCOPED_TRACE(std::to_string(right_percent) + " % of " + std::to_string(max_drafts));
      const Outcome guessed = answers(c, max_drafts, right_percent);
      for (size_t r = 0; r < plain.events.size(); ++r)
        for (size_t choice = 0; choice < plain.events[r].size(); ++choice) {
          const auto& want = plain.events[r][choice];
          const auto& got = guessed.events[r][choice];
          ASSERT_EQ(got.size(), want.size());
          for (size_t i = 0; i < want.size(); ++i) expect_same(got[i], want[i]);
        }
      const EngineCounters& n = guessed.counters;
      EXPECT_GT(n.drafts, 0u);
      EXPECT_GE(n.draft_tokens, n.drafts);
      EXPECT_EQ(n.generation_tokens, plain.counters.generation_tokens);
      if (right_percent == 0) {
        EXPECT_EQ(n.accepted_tokens, 0u);
      }
      if (right_percent == 50) {
        EXPECT_GT(n.accepted_tokens, 0u);
        EXPECT_LT(n.accepted_tokens, n.draft_tokens);
      }
      if (right_percent == 100) {
        EXPECT_GT(n.accepted_tokens, n.draft_tokens / 2);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases,
                         DraftsChangeNothing,
                         ::testing::ValuesIn(cases()),
                         [](const auto& param_info) { return param_info.param.name; });

TEST(DraftConfig, CountIsBounded) {
  EngineConfig config = small_config();
  config.max_drafts = 256;
  EXPECT_TRUE(config.validate());
  config.max_drafts = 257;
  EXPECT_FALSE(config.validate());
  config.max_drafts = -1;
  EXPECT_FALSE(config.validate());
}

}  // namespace
}  // namespace tandem::engine
