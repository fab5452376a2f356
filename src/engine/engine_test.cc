#include "engine/engine.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "engine/engine_test_util.h"

namespace tandem::engine {
namespace {

using std::chrono::milliseconds;

size_t thread_count() {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    (void)entry;
    ++count;
  }
  return count;
}

RecordingSink& sink_of(const Request& request) {
  return static_cast<RecordingSink&>(*request.sink);
}

// An engine over a FakeExecutor; the end of each test checks that nothing is left.
class EngineTest : public ::testing::Test {
 protected:
  void TearDown() override {
    if (!engine_) return;
    EXPECT_TRUE(eventually([](const EngineCounters& c) {
      return c.running == 0 && c.waiting == 0 && c.queued == 0 && c.free_blocks == c.total_blocks &&
             !c.busy;
    }));
    EXPECT_EQ(controls_->complaint(), "");
    engine_.reset();
    // The kernel lists a thread for a moment after it was joined.
    for (int i = 0; i < 5000 && thread_count() != threads_before_; ++i)
      std::this_thread::sleep_for(milliseconds(1));
    EXPECT_EQ(thread_count(), threads_before_);
  }

  void start(EngineConfig config, FakeExecutorOptions options = {}) {
    config_ = config;
    auto engine =
        Engine::create(config, std::make_unique<FakeExecutor>(config, options, controls_), clock_);
    ASSERT_TRUE(engine) << engine.error().to_line();
    engine_ = std::move(*engine);
  }

  template <class Condition>
  bool eventually(Condition condition) {
    for (int i = 0; i < 10'000; ++i) {
      if (condition(engine_->counters())) return true;
      std::this_thread::sleep_for(milliseconds(1));
    }
    return false;
  }

  void expect_answer(const Request& request) {
    ASSERT_TRUE(sink_of(request).wait_finished(request.choices));
    for (int32_t c = 0; c < request.choices; ++c)
      expect_truth(config_, request, c, sink_of(request).events(c));
  }

  const size_t threads_before_ = thread_count();
  ManualClock clock_;
  EngineConfig config_;
  std::shared_ptr<FakeControls> controls_ = std::make_shared<FakeControls>();
  std::unique_ptr<Engine> engine_;
};

TEST_F(EngineTest, ConcurrentRequestsEqualTheirLoneRuns) {
  for (const int depth : {1, 2}) {
    start(small_config(), {.depth = depth, .copies_blocks = depth == 2});
    std::vector<std::vector<Request>> requests(4);
    std::vector<std::thread> clients;
    for (int t = 0; t < 4; ++t)
      clients.emplace_back([&, t] {
        std::mt19937 random(static_cast<unsigned>(t + 10 * depth));
        for (int i = 0; i < 40; ++i) {
          requests[size_t(t)].push_back(
              random_request(random, config_, std::to_string(t) + "-" + std::to_string(i)));
          ASSERT_TRUE(engine_->submit(requests[size_t(t)].back()));
        }
      });
    for (std::thread& client : clients) client.join();
    for (const auto& list : requests)
      for (const Request& request : list) expect_answer(request);
    EXPECT_GT(engine_->counters().shared_steps, 0u);
    EXPECT_EQ(engine_->counters().requests, 160u);
    engine_->drain(clock_.now() + milliseconds(1));
    engine_.reset();
  }
}

TEST_F(EngineTest, AbortFreesBlocksWithinOneStep) {
  EngineConfig config = small_config();
  config.max_model_len = 250;
  config.prefix_caching = false;
  start(config, {.step_time = std::chrono::microseconds(2000)});
  const Request a = plain_request("a", {1, 2, 3}, 240);
  const Request b = plain_request("b", {4, 5, 6}, 60);
  ASSERT_TRUE(engine_->submit(a));
  ASSERT_TRUE(engine_->submit(b));
  ASSERT_TRUE(sink_of(a).wait_events(0, 8));
  engine_->abort("a");
  ASSERT_TRUE(sink_of(a).wait_finished(1));
  const EngineCounters after = engine_->counters();
  EXPECT_EQ(sink_of(a).events(0).back().finish, FinishReason::kAbort);
  EXPECT_LE(after.running, 2);
  ASSERT_TRUE(eventually([&](const EngineCounters& c) { return c.running <= 1; }));
  EXPECT_LE(engine_->counters().steps, after.steps + 2);
  engine_->abort("a");
  engine_->abort("nobody");
  expect_answer(b);
  EXPECT_EQ(engine_->counters().finished_abort, 1u);
}

TEST_F(EngineTest, AbortOfOneChoiceLeavesTheOthers) {
  start(small_config(), {.step_time = std::chrono::microseconds(500)});
  Request r = plain_request("n", {1, 2, 3, 4, 5}, 60);
  r.choices = 4;
  r.sampling.temperature = 1;
  ASSERT_TRUE(engine_->submit(r));
  ASSERT_TRUE(sink_of(r).wait_events(2, 3));
  engine_->abort("n", 2);
  expect_answer(r);
  EXPECT_EQ(sink_of(r).events(2).back().finish, FinishReason::kAbort);
  for (const int32_t c : {0, 1, 3})
    EXPECT_EQ(sink_of(r).events(c).back().finish, FinishReason::kLength);
}

TEST_F(EngineTest, FullQueueAnswersAtOnce) {
  EngineConfig config = small_config();
  config.max_queue = 3;
  config.max_num_seqs = 1;
  start(config, {.step_time = std::chrono::microseconds(3000)});
  std::vector<Request> taken;
  int refused = 0;
  for (int i = 0; i < 12; ++i) {
    Request r = plain_request(std::to_string(i), {1, 2, i}, 5);
    const auto done = engine_->submit(r);
    if (done) {
      taken.push_back(r);
    } else {
      EXPECT_EQ(done.error().code, ErrorCode::kUnavailable);
      EXPECT_EQ(sink_of(r).finished(), 0);
      ++refused;
    }
  }
  EXPECT_GE(refused, 1);
  EXPECT_GE(taken.size(), 3u);
  for (const Request& r : taken) expect_answer(r);
}

TEST_F(EngineTest, WhatCanNeverRunIsRefused) {
  EngineConfig config = small_config();
  config.blocks = 5;  // 20 tokens
  start(config);
  const auto code = [&](Request r) {
    const auto done = engine_->submit(std::move(r));
    return done ? std::string("accepted") : std::string(to_string(done.error().code));
  };
  EXPECT_EQ(code(plain_request("a", std::vector<int32_t>(20, 1), 5)), "invalid_argument");
  EXPECT_EQ(code(plain_request("a", {}, 5)), "invalid_argument");
  EXPECT_EQ(code(plain_request("a", {50}, 5)), "invalid_argument");
  EXPECT_EQ(code(plain_request("a", {-1}, 5)), "invalid_argument");
  EXPECT_EQ(code(plain_request("a", {1}, 0)), "invalid_argument");
  EXPECT_EQ(code(plain_request("", {1}, 1)), "invalid_argument");
  Request r = plain_request("a", {1}, 1);
  r.choices = 1'000'000'000;
  EXPECT_EQ(code(r), "invalid_argument");
  r.choices = 1;
  r.sampling.top_logprobs = 1'000'000;
  EXPECT_EQ(code(r), "invalid_argument");
  r.sampling.top_logprobs = -1;
  r.sampling.temperature = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(code(r), "invalid_argument");
  // The pool is the limit: ends by length when it is full.
  const Request full = plain_request("full", std::vector<int32_t>(19, 1), 50);
  ASSERT_TRUE(engine_->submit(full));
  expect_answer(full);
  EXPECT_EQ(sink_of(full).events(0).size(), 1u);
  const Request grows = plain_request("grows", {7}, 2'000'000'000);
  ASSERT_TRUE(engine_->submit(grows));
  expect_answer(grows);
  EXPECT_GE(sink_of(grows).events(0).size(), 19u);
}

TEST_F(EngineTest, AnIdInUseIsRefused) {
  start(small_config(), {.step_time = std::chrono::microseconds(1000)});
  const Request a = plain_request("a", {1}, 80);
  ASSERT_TRUE(engine_->submit(a));
  const auto twin = engine_->submit(plain_request("a", {2}, 1));
  ASSERT_FALSE(twin);
  EXPECT_EQ(twin.error().code, ErrorCode::kInvalidArgument);
  engine_->abort("a");
  ASSERT_TRUE(sink_of(a).wait_finished(1));
}

TEST_F(EngineTest, DeadlineEndsARequestWithTimeout) {
  start(small_config(), {.step_time = std::chrono::microseconds(500)});
  Request late = plain_request("late", {1, 2}, 90);
  late.deadline = clock_.now() + milliseconds(5);
  const Request other = plain_request("other", {3, 4}, 40);
  ASSERT_TRUE(engine_->submit(late));
  ASSERT_TRUE(engine_->submit(other));
  ASSERT_TRUE(sink_of(late).wait_events(0, 2));
  clock_.advance(milliseconds(6));
  ASSERT_TRUE(sink_of(late).wait_finished(1));
  const TokenEvent last = sink_of(late).events(0).back();
  EXPECT_EQ(last.finish, FinishReason::kError);
  ASSERT_TRUE(last.error);
  EXPECT_EQ(last.error->code, ErrorCode::kTimeout);
  expect_answer(other);
  EXPECT_EQ(engine_->counters().timeouts, 1u);
}

TEST_F(EngineTest, DrainLetsRunningRequestsFinish) {
  start(small_config(), {.depth = 2, .step_time = std::chrono::microseconds(300)});
  std::vector<Request> requests;
  for (int i = 0; i < 10; ++i) {
    requests.push_back(plain_request(std::to_string(i), {i, 2, 3}, 30));
    ASSERT_TRUE(engine_->submit(requests.back()));
  }
  engine_->drain(clock_.now() + milliseconds(1));  // the clock stands still: all the time they need
  for (const Request& r : requests) expect_answer(r);
  const auto refused = engine_->submit(plain_request("x", {1}, 1));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  engine_->drain(clock_.now());  // again: nothing happens
}

TEST_F(EngineTest, DrainEndsTheRestAtItsDeadline) {
  start(small_config(), {.step_time = std::chrono::microseconds(1000)});
  std::vector<Request> requests;
  for (int i = 0; i < 10; ++i) {
    requests.push_back(plain_request(std::to_string(i), {i, 2, 3}, 90));
    ASSERT_TRUE(engine_->submit(requests.back()));
  }
  engine_->drain(clock_.now());
  for (const Request& r : requests) {
    ASSERT_EQ(sink_of(r).finished(), 1);
    const TokenEvent last = sink_of(r).events(0).back();
    EXPECT_EQ(last.finish, FinishReason::kError);
    EXPECT_EQ(last.error->code, ErrorCode::kUnavailable);
  }
}

TEST_F(EngineTest, ChoicesShareThePromptAndDiffer) {
  for (const bool copies : {false, true}) {
    start(small_config(), {.depth = 2, .copies_blocks = copies});
    Request r = plain_request("n", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 12);
    r.choices = 4;
    r.sampling.temperature = 1;
    ASSERT_TRUE(engine_->submit(r));
    expect_answer(r);
    EXPECT_NE(sink_of(r).events(0)[0].token * 50 + sink_of(r).events(0)[1].token,
              sink_of(r).events(1)[0].token * 50 + sink_of(r).events(1)[1].token);
    EXPECT_EQ(engine_->counters().forks, 3u);
    EXPECT_EQ(engine_->counters().block_copies, copies ? 3u : 0u);
    EXPECT_EQ(controls_->copies, copies ? 3 : 0);
    engine_.reset();
  }
}

TEST_F(EngineTest, PreemptionChangesNothing) {
  EngineConfig config = small_config();
  config.blocks = 12;
  start(config);
  std::vector<Request> requests;
  controls_->stalled = true;  // until all are there, so that they compete for blocks
  for (int i = 0; i < 8; ++i) {
    requests.push_back(plain_request(std::to_string(i), {i, 2, 3, 4, 5}, 35));
    ASSERT_TRUE(engine_->submit(requests.back()));
  }
  controls_->stalled = false;
  for (const Request& r : requests) expect_answer(r);
  EXPECT_GT(engine_->counters().preemptions, 0u);
}

TEST_F(EngineTest, SwappingChangesNothing) {
  EngineConfig config = small_config();
  config.blocks = 12;
  for (const auto mode : {PreemptionMode::kSwap, PreemptionMode::kRecompute}) {
    config.preemption = mode;
    start(config, {.depth = 2, .host_blocks = 30});
    std::vector<Request> requests;
    controls_->stalled = true;  // until all are there, so that they compete for blocks
    for (int i = 0; i < 8; ++i) {
      requests.push_back(plain_request(std::to_string(i), {i, 2, 3, 4, 5}, 35));
      ASSERT_TRUE(engine_->submit(requests.back()));
    }
    controls_->stalled = false;
    for (const Request& r : requests) expect_answer(r);
    EXPECT_GT(engine_->counters().preemptions, 0u);
    EXPECT_EQ(engine_->counters().swaps_out > 0, mode == PreemptionMode::kSwap);
    EXPECT_TRUE(eventually([](const EngineCounters& c) { return c.free_host_blocks == 30; }));
    engine_.reset();
  }
}

TEST_F(EngineTest, AWarmPrefixIsCountedAndChangesNothing) {
  start(small_config());
  std::vector<int32_t> prompt(16);
  for (int i = 0; i < 16; ++i) prompt[size_t(i)] = i;
  const Request cold = plain_request("cold", prompt, 6);
  ASSERT_TRUE(engine_->submit(cold));
  expect_answer(cold);
  EXPECT_EQ(sink_of(cold).events(0)[0].cached_tokens, 0);
  const Request warm = plain_request("warm", prompt, 6);
  ASSERT_TRUE(engine_->submit(warm));
  expect_answer(warm);
  EXPECT_EQ(sink_of(warm).events(0)[0].cached_tokens, 15);  // all but the token that is run again
  EXPECT_EQ(engine_->counters().prefix_hits, 15u);
  Request salted = plain_request("salted", prompt, 6);
  salted.tenant_salt = "other";
  ASSERT_TRUE(engine_->submit(salted));
  expect_answer(salted);
  EXPECT_EQ(sink_of(salted).events(0)[0].cached_tokens, 0);
  Request scored = plain_request("scored", prompt, 6);
  scored.sampling.prompt_top_logprobs = 2;
  ASSERT_TRUE(engine_->submit(scored));
  expect_answer(scored);
  EXPECT_EQ(sink_of(scored).events(0)[0].cached_tokens, 0);
}

TEST_F(EngineTest, ResumedRequestGoesOnAsIfNeverStopped) {
  start(small_config());
  const Request whole = plain_request("whole", {5, 6, 7, 8, 9}, 20);
  const auto truth = fake_answer(config_, whole, 0);
  Request rest = plain_request("rest", {5, 6, 7, 8, 9}, 20);
  for (int i = 0; i < 7; ++i) rest.resume_output.push_back(truth[size_t(i)].token);
  ASSERT_TRUE(engine_->submit(rest));
  expect_answer(rest);
  const auto events = sink_of(rest).events(0);
  ASSERT_EQ(events.size(), 13u);
  for (size_t i = 0; i < events.size(); ++i) EXPECT_EQ(events[i].token, truth[i + 7].token);
}

TEST_F(EngineTest, NanEndsThatRequestOnly) {
  start(small_config());
  controls_->poison_token = 49;
  Request bad = plain_request("bad", {1, 2, 3, 4, 49, 6}, 10);
  bad.choices = 2;
  Request good = plain_request("good", {1, 2, 3, 4, 5, 6}, 10);
  good.sampling.logit_bias = {{49, -100.0f}};
  good.sampling.bad_words = {{49}};
  ASSERT_TRUE(engine_->submit(good));
  ASSERT_TRUE(engine_->submit(bad));
  expect_answer(good);
  ASSERT_TRUE(sink_of(bad).wait_finished(2));
  EXPECT_EQ(sink_of(bad).events(0).back().finish, FinishReason::kError);
  EXPECT_EQ(sink_of(bad).events(1).back().finish, FinishReason::kError);
  EXPECT_TRUE(eventually([](const EngineCounters& c) { return c.corrupted == 1; }));
}

TEST_F(EngineTest, ADeviceFailureEndsTheStepsRequestsAndShows) {
  start(small_config());
  controls_->fail_launch = -2;
  const Request a = plain_request("a", {1, 2}, 5);
  ASSERT_TRUE(engine_->submit(a));
  ASSERT_TRUE(sink_of(a).wait_finished(1));
  EXPECT_EQ(sink_of(a).events(0).back().error->code, ErrorCode::kInternal);
  EXPECT_TRUE(
      eventually([](const EngineCounters& c) { return c.consecutive_device_failures == 1; }));
  controls_->fail_launch = -1;
  controls_->fail_collect = -2;
  const Request b = plain_request("b", {1, 2}, 5);
  ASSERT_TRUE(engine_->submit(b));
  ASSERT_TRUE(sink_of(b).wait_finished(1));
  EXPECT_TRUE(
      eventually([](const EngineCounters& c) { return c.consecutive_device_failures == 2; }));
  controls_->fail_collect = -1;
  const Request c = plain_request("c", {1, 2}, 5);
  ASSERT_TRUE(engine_->submit(c));
  expect_answer(c);
  EXPECT_EQ(engine_->counters().consecutive_device_failures, 0);
  EXPECT_EQ(engine_->counters().device_failures, 2u);
}

class ThrowingSink final : public EventSink {
 public:
  void on_event(TokenEvent) override { throw std::bad_alloc(); }
};

TEST_F(EngineTest, AThrowingSinkHurtsItsRequestOnly) {
  start(small_config());
  Request bad = plain_request("bad", {1, 2}, 50);
  bad.sink = std::make_shared<ThrowingSink>();
  const Request good = plain_request("good", {3, 4}, 50);
  ASSERT_TRUE(engine_->submit(bad));
  ASSERT_TRUE(engine_->submit(good));
  expect_answer(good);
}

TEST_F(EngineTest, CancelStorm) {
  EngineConfig config = small_config();
  config.blocks = 20;
  start(config, {.depth = 2});
  const char* text = std::getenv("TANDEM_CANCELS");
  const int count = text != nullptr ? std::atoi(text) : 2000;
  std::mt19937 random(5);
  std::vector<Request> requests;
  for (int i = 0; i < count; ++i) {
    Request r = random_request(random, config_, std::to_string(i));
    auto done = engine_->submit(r);
    if (!done) {
      ASSERT_EQ(done.error().code, ErrorCode::kUnavailable);
      std::this_thread::sleep_for(milliseconds(1));
      continue;
    }
    requests.push_back(r);
    engine_->abort(requests[random() % requests.size()].id);
  }
  for (const Request& r : requests) engine_->abort(r.id);
  for (const Request& r : requests) expect_answer(r);
}

TEST_F(EngineTest, BlockEventsCarryEpochAndSequence) {
  EngineConfig config = small_config();
  config.block_event_capacity = 100;
  start(config);
  const Request r = plain_request("a", {1, 2, 3, 4, 5, 6, 7, 8}, 3);
  ASSERT_TRUE(engine_->submit(r));
  expect_answer(r);
  std::vector<kv::BlockEvent> events;
  EXPECT_TRUE(eventually([&](const EngineCounters&) {
    for (const auto& e : engine_->take_block_events()) events.push_back(e);
    return events.size() >= 2;
  }));
  EXPECT_EQ(events[0].kind, kv::BlockEvent::Kind::kStored);
  EXPECT_EQ(events[1].parent, events[0].hash);
  EXPECT_EQ(events[1].sequence, events[0].sequence + 1);
  EXPECT_EQ(events[1].epoch, events[0].epoch);
}

TEST_F(EngineTest, IdleEngineSleeps) {
  start(small_config());
  const Request r = plain_request("a", {1}, 3);
  ASSERT_TRUE(engine_->submit(r));
  expect_answer(r);
  ASSERT_TRUE(eventually([](const EngineCounters& c) { return !c.busy; }));
  timespec before{};
  timespec after{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
  std::this_thread::sleep_for(milliseconds(300));
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
  const double used_ms = static_cast<double>(after.tv_sec - before.tv_sec) * 1e3 +
                         static_cast<double>(after.tv_nsec - before.tv_nsec) / 1e6;
  EXPECT_LT(used_ms, 3.0);  // 1 % of a core
}

TEST(EngineCreate, RefusesNonsense) {
  const ManualClock clock;
  EngineConfig config = small_config();
  config.form.segment = 6;  // not a multiple of the block
  auto made =
      Engine::create(config,
                     std::make_unique<FakeExecutor>(
                         small_config(), FakeExecutorOptions{}, std::make_shared<FakeControls>()),
                     clock);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace tandem::engine
