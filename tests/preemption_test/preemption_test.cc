// The same answer on the real path whatever becomes of a request's blocks: the bundled model behind
// Engine and ModelExecutor, on KV pools that are far too small.

#include <gtest/gtest.h>

#include "../tests/preemption_test/engine_on_model.h"

namespace tandem::testing {
namespace {

using engine::PreemptionMode;
using engine::Request;

constexpr int32_t kOutput = 80;

Request request(const std::string& id, uint32_t number, int32_t prompt) {
  std::mt19937 random(number);
  // Without the special tokens at the end of the vocabulary.
  Request r = engine::plain_request(id, engine::random_tokens(random, prompt, 1000), kOutput);
  r.sampling.top_logprobs = 3;
  r.sampling.seed = 7000 + number;
  return r;
}

Request seeded(Request r) {
  r.sampling.temperature = 0.9f;
  r.sampling.top_p = 0.95f;
  return r;
}

// Greedy and seeded, with and without what looks at the history, one that scores its prompt.
std::vector<Request> mixed_requests() {
  std::vector<Request> list;
  for (uint32_t i = 0; i < 6; ++i) {
    Request r = request("r" + std::to_string(i), i, 40 + 21 * static_cast<int32_t>(i));
    if (i % 2 == 1) r = seeded(std::move(r));
    if (i == 2 || i == 3) {
      r.sampling.repetition_penalty = 1.1f;
      r.sampling.frequency_penalty = 0.3f;
    }
    if (i == 4) r.sampling.prompt_top_logprobs = 2;
    list.push_back(std::move(r));
  }
  return list;
}

class Preemption : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto loaded = load_bundled_model();
    ASSERT_TRUE(loaded) << loaded.error().to_line();
    model_ = loaded->release();
    faults().block_bytes = model::kv_block_bytes(model_->model->spec(), tensor::DType::kBF16);
  }
  static void TearDownTestSuite() {
    delete model_;
    model_ = nullptr;
  }
  void TearDown() override {
    faults().refused_copies = 0;
    faults().broken_copies = 0;
    faults().broken_returns = 0;
    faults().refused_starts = 0;
  }

  // Each choice alone in the engine: one sequence at a time, and room for all of it.
  static Answers alone(const std::vector<Request>& requests) {
    Answers answers;
    for (const Request& r : requests) {
      const EngineRun run = run_requests(*model_, {.max_num_seqs = 1}, {r});
      EXPECT_EQ(run.counters.preemptions, 0u);
      EXPECT_EQ(run.counters.block_copies, 0u);
      expect_all_free(run.counters);
      answers.insert(run.answers.begin(), run.answers.end());
    }
    return answers;
  }

  static void expect_same(const Answers& got, const Answers& wanted) {
    ASSERT_EQ(got.size(), wanted.size());
    for (const auto& [key, events] : wanted) {
      expect_same_answer(got.at(key), events, key.first + "/" + std::to_string(key.second));
    }
  }

  static const Answers& mixed_truth() {
    static const Answers truth = alone(mixed_requests());
    return truth;
  }

  static TestModel* model_;
};
TestModel* Preemption::model_ = nullptr;

TEST_F(Preemption, Recompute) {
  for (const int depth : {1, 2}) {
    for (const bool caching : {false, true}) {
      SCOPED_TRACE(::testing::Message() << "depth " << depth << " caching " << caching);
      const EngineShape shape{.kv_blocks = 8, .depth = depth, .prefix_caching = caching};
      const EngineRun run = run_requests(*model_, shape, mixed_requests());
      EXPECT_GT(run.counters.preemptions, 0u);
      EXPECT_EQ(run.counters.swaps_out, 0u);
      EXPECT_GT(run.counters.shared_steps, 0u);
      expect_all_free(run.counters);
      expect_same(run.answers, mixed_truth());
    }
  }
}

TEST_F(Preemption, Swap) {
  for (const int depth : {1, 2}) {
    for (const bool caching : {false, true}) {
      SCOPED_TRACE(::testing::Message() << "depth " << depth << " caching " << caching);
      const EngineShape shape{.kv_blocks = 8,
                              .host_blocks = Faults::kTierBlocks,
                              .depth = depth,
                              .prefix_caching = caching,
                              .preemption = PreemptionMode::kSwap};
      const EngineRun run = run_requests(*model_, shape, mixed_requests());
      EXPECT_GT(run.counters.swaps_out, 0u);
      EXPECT_EQ(run.counters.swaps_out, run.counters.preemptions);
      EXPECT_EQ(run.counters.swaps_in, run.counters.swaps_out);
      EXPECT_EQ(run.counters.swaps_failed, 0u);
      EXPECT_EQ(run.counters.total_host_blocks, Faults::kTierBlocks);
      expect_all_free(run.counters);
      expect_same(run.answers, mixed_truth());
    }
  }
}

// A tier too small for all: some go there, the others are computed again.
TEST_F(Preemption, SwapWithLittleRoom) {
  const EngineShape shape{
      .kv_blocks = 7, .host_blocks = 3, .depth = 2, .preemption = PreemptionMode::kMeasured};
  const EngineRun run = run_requests(*model_, shape, mixed_requests());
  EXPECT_GT(run.counters.preemptions, 0u);
  expect_all_free(run.counters);
  expect_same(run.answers, mixed_truth());
}

TEST_F(Preemption, TransfersThatFailAreComputedAgain) {
  struct Case {
    const char* name;
    std::atomic<int>* fault;
  };
  for (const Case& c : {Case{"refused copies", &faults().refused_copies},
                        Case{"broken copies", &faults().broken_copies},
                        Case{"broken returns", &faults().broken_returns},
                        Case{"refused starts", &faults().refused_starts}}) {
    for (const int depth : {1, 2}) {
      SCOPED_TRACE(::testing::Message() << c.name << " depth " << depth);
      // Not all: some swaps work between those that fail, out and in.
      *c.fault = 4;
      const EngineShape shape{.kv_blocks = 8,
                              .host_blocks = Faults::kTierBlocks,
                              .depth = depth,
                              .preemption = PreemptionMode::kSwap};
      const EngineRun run = run_requests(*model_, shape, mixed_requests());
      EXPECT_GT(run.counters.swaps_failed, 0u);
      EXPECT_LT(*c.fault, 4);
      expect_all_free(run.counters);
      expect_same(run.answers, mixed_truth());
      *c.fault = 0;
    }
  }
}

// Choice k of n = 4 draws with the key (seed, k, position): what it draws beside the others is what
// it draws when the choices run one after the other, and choice 0 is the answer of n = 1.
TEST_F(Preemption, FourChoicesShareTheirPromptByCopies) {
  Request one = seeded(request("n", 40, 100));
  Request greedy = request("g", 41, 75);
  const Answers single = alone({one, greedy});
  Request four = one;
  four.choices = 4;
  greedy.choices = 4;
  const Answers lone = alone({four, greedy});
  expect_same_answer(lone.at({"n", 0}), single.at({"n", 0}), "n");
  EXPECT_NE(lone.at({"n", 1})[0].token + 1000 * lone.at({"n", 1})[1].token,
            lone.at({"n", 0})[0].token + 1000 * lone.at({"n", 0})[1].token);
  for (int32_t k = 0; k < 4; ++k) {
    expect_same_answer(lone.at({"g", k}), single.at({"g", 0}), "greedy");
  }
  for (const int depth : {1, 2}) {
    SCOPED_TRACE(depth);
    const EngineRun run = run_requests(*model_, {.depth = depth}, {four, greedy});
    EXPECT_EQ(run.counters.block_copies, 6u);  // neither prompt ends with a block
    EXPECT_EQ(run.counters.forks, 6u);
    EXPECT_EQ(run.counters.preemptions, 0u);
    expect_all_free(run.counters);
    expect_same(run.answers, lone);
    for (const PreemptionMode mode : {PreemptionMode::kRecompute, PreemptionMode::kSwap}) {
      const EngineShape tiny{.kv_blocks = 9,
                             .host_blocks = mode == PreemptionMode::kSwap ? Faults::kTierBlocks : 0,
                             .depth = depth,
                             .prefix_caching = true,
                             .preemption = mode};
      const EngineRun preempted = run_requests(*model_, tiny, {four, greedy});
      EXPECT_GT(preempted.counters.block_copies, 0u);
      EXPECT_GT(preempted.counters.preemptions, 0u);
      EXPECT_EQ(preempted.counters.swaps_out > 0, mode == PreemptionMode::kSwap);
      expect_all_free(preempted.counters);
      expect_same(preempted.answers, lone);
    }
  }
}

}  // namespace
}  // namespace tandem::testing
