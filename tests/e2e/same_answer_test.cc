// "Same answer" (docs/same_answer.md): whatever happens around a greedy or seeded request, its ids
// and log-probabilities are those of its lone run, to the bit.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "../tests/e2e/answers.h"
#include "../tests/e2e/machine.h"
#include "../tests/e2e/selection.h"

namespace tandem::e2e {
namespace {

using engine::PreemptionMode;
using tensor::DType;

constexpr char kBundled[] = TANDEM_SOURCE_DIR "/models/tandem-tiny-v3";
constexpr char kLlama[] = TANDEM_SOURCE_DIR "/tests/golden/checkpoints/llama_gqa";

struct Scenario {
  std::string name;
  EngineOptions engine;
  int threads = 2;
  int32_t noise = 0;  // other requests among the questions; some are aborted
  bool one_by_one = false;
  bool twice = false;    // the second time with the cache of the first
  bool choices = false;  // the questions with n = 4 beside those with n = 1
  bool must_preempt = false;
  bool in_short = true;
};

// Pools that hold the longest question with its answer, and little more.
constexpr int32_t kTinyPool = 14;

std::vector<Scenario> scenarios() {
  std::vector<Scenario> list;
  for (const int32_t batch : {1, 2, 7, 33})
    list.push_back({.name = fmt::format("batch of {}", batch),
                    .engine = {.batch = batch, .prefix_caching = batch == 7},
                    .noise = 16,
                    .in_short = batch == 7});
  for (const int32_t chunk : {1, 16, 512})
    list.push_back({.name = fmt::format("chunks of {}", chunk),
                    .engine = {.chunk = chunk, .batch = 9},
                    .in_short = chunk == 16});
  list.push_back({.name = "preempted by recompute",
                  .engine = {.chunk = 64, .batch = 12, .blocks = kTinyPool},
                  .must_preempt = true});
  list.push_back({.name = "preempted by swap",
                  .engine = {.chunk = 64,
                             .batch = 12,
                             .blocks = kTinyPool,
                             .host_blocks = 40,
                             .preemption = PreemptionMode::kSwap},
                  .must_preempt = true});
  list.push_back({.name = "preempted by swap with two steps in flight",
                  .engine = {.chunk = 48,
                             .batch = 12,
                             .blocks = kTinyPool,
                             .host_blocks = 9,
                             .depth = 2,
                             .prefix_caching = true,
                             .preemption = PreemptionMode::kSwap},
                  .must_preempt = true,
                  .in_short = false});
  list.push_back({.name = "prefix warm",
                  .engine = {.batch = 5, .blocks = 600, .prefix_caching = true},
                  .twice = true});
  list.push_back({.name = "prefix warm, chunks of 48",
                  .engine = {.chunk = 48, .batch = 6, .blocks = 600, .prefix_caching = true},
                  .twice = true,
                  .in_short = false});
  for (const int threads : {1, 3})
    list.push_back({.name = fmt::format("{} threads", threads),
                    .engine = {.chunk = 200, .batch = 7},
                    .threads = threads,
                    .in_short = threads == 3});
  list.push_back({.name = "two steps in flight",
                  .engine = {.chunk = 96, .batch = 8, .depth = 2, .prefix_caching = true},
                  .noise = 16});
  list.push_back(
      {.name = "preempted with two steps in flight",
       .engine =
           {.chunk = 64, .batch = 12, .blocks = kTinyPool, .depth = 2, .prefix_caching = true},
       .must_preempt = true,
       .in_short = false});
  list.push_back({.name = "n = 4 beside n = 1",
                  .engine = {.chunk = 128, .batch = 16, .prefix_caching = true},
                  .choices = true});
  return list;
}

struct Model {
  std::string name;
  const char* directory;
  DType activation;
  engine::FormRule form;
  int32_t prompts;
};

// Questions, with who waits for their answers.
struct Asked {
  const Question* question;
  std::shared_ptr<AnswerSink> sink;
  std::string id;
};

class SameAnswer : public ::testing::TestWithParam<Model> {
 protected:
  void SetUp() override {
    Machine* machine = machine_with(1);
    ASSERT_NE(machine, nullptr);
    questions_ = make_questions(is_short() ? 12 : GetParam().prompts, machine->vocabulary());
    truth_ = lone_runs(*machine, questions_);
    ASSERT_EQ(truth_.size(), questions_.size());
  }

  Machine* machine_with(int threads) {
    auto& machine = machines_[threads];
    if (!machine) {
      auto opened = open_machine({.directory = GetParam().directory,
                                  .activation = GetParam().activation,
                                  .threads = threads});
      EXPECT_TRUE(opened) << opened.error().to_line();
      if (!opened) return nullptr;
      machine = std::make_unique<Machine>(std::move(*opened));
    }
    return machine.get();
  }

  // One after another, each prompt in one step, nothing cached: what every other way must equal.
  std::vector<std::vector<Answer>> lone_runs(const Machine& machine,
                                             const std::vector<Question>& questions) {
    std::vector<std::vector<Answer>> answers;
    auto started = start_engine(machine, {.blocks = 64, .form = GetParam().form});
    EXPECT_TRUE(started) << started.error().to_line();
    if (!started) return answers;
    for (const Question& question : questions) {
      const Asked asked = ask(*started, question);
      answers.push_back(asked.sink->wait(question.choices));
      EXPECT_EQ(answers.back().size(), static_cast<size_t>(question.choices)) << question.name;
      for (const Answer& answer : answers.back())
        EXPECT_FALSE(answer.error) << question.name << ": " << answer.error->to_line();
    }
    return answers;
  }

  Asked ask(EngineUnderTest& under_test, const Question& question) {
    Asked asked{&question, std::make_shared<AnswerSink>(), fmt::format("request {}", asked_++)};
    const auto submitted = under_test.engine->submit(request_of(question, asked.id, asked.sink));
    EXPECT_TRUE(submitted) << question.name << ": " << submitted.error().to_line();
    return asked;
  }

  // All questions, with noise between them, at once; then compares.
  void run(EngineUnderTest& under_test,
           const Scenario& scenario,
           const std::vector<Question>& questions,
           const std::vector<std::vector<Answer>>& truth) {
    const auto noise = make_noise(scenario.noise, machine_with(2)->vocabulary(), 99);
    std::vector<Asked> asked;
    std::vector<Asked> asked_noise;
    for (size_t i = 0; i < questions.size(); ++i) {
      const size_t n = i / 2;
      if (i % 2 == 0 && n < noise.size()) {
        asked_noise.push_back(ask(under_test, noise[n]));
        if (n % 5 == 2) under_test.engine->abort(asked_noise.back().id);
      }
      asked.push_back(ask(under_test, questions[i]));
      if (asked_noise.size() > 6 && i % 9 == 0)
        under_test.engine->abort(asked_noise[asked_noise.size() - 5].id);
    }
    for (size_t i = 0; i < asked.size(); ++i) compare(asked[i], truth[i]);
    for (const Asked& one : asked_noise)
      EXPECT_EQ(one.sink->wait(one.question->choices).size(),
                static_cast<size_t>(one.question->choices));
  }

  void compare(const Asked& asked, const std::vector<Answer>& truth) {
    const Question& question = *asked.question;
    const auto answers = asked.sink->wait(question.choices);
    ASSERT_EQ(answers.size(), truth.size()) << question.name << ": no end";
    for (size_t choice = 0; choice < answers.size(); ++choice) {
      const std::string text = difference(answers[choice], truth[choice]);
      EXPECT_EQ(text, "") << question.name << ", choice " << choice;
      if (!text.empty()) ++differences_;
      cached_tokens_ += answers[choice].cached_tokens;
    }
  }

  // Questions with four choices, of which the first is the one that n = 1 gives.
  std::vector<Question> with_choices(const std::vector<std::vector<Answer>>& lone,
                                     std::vector<std::vector<Answer>>& truth) {
    std::vector<Question> some;
    std::vector<size_t> indices;
    for (size_t i = 1; i < questions_.size(); i += 6) {
      some.push_back(questions_[i]);
      some.back().choices = 4;
      some.back().name += ", n = 4";
      indices.push_back(i);
    }
    truth = lone_runs(*machine_with(1), some);
    EXPECT_EQ(truth.size(), some.size());
    for (size_t i = 0; i < truth.size(); ++i)
      EXPECT_EQ(difference(truth[i].at(0), lone[indices[i]].at(0)), "") << some[i].name;
    return some;
  }

  void check(Scenario scenario) {
    SCOPED_TRACE(scenario.name);
    Machine* machine = machine_with(scenario.threads);
    ASSERT_NE(machine, nullptr);
    scenario.engine.form = GetParam().form;
    auto started = start_engine(*machine, scenario.engine);
    ASSERT_TRUE(started) << started.error().to_line();
    std::vector<Question> questions = questions_;
    std::vector<std::vector<Answer>> truth = truth_;
    if (scenario.choices) {
      std::vector<std::vector<Answer>> more_truth;
      const auto more = with_choices(truth_, more_truth);
      questions.insert(questions.begin(), more.begin(), more.end());
      truth.insert(truth.begin(), more_truth.begin(), more_truth.end());
    }
    cached_tokens_ = 0;
    run(*started, scenario, questions, truth);
    if (scenario.twice) {
      cached_tokens_ = 0;
      run(*started, scenario, questions, truth);
      EXPECT_GT(cached_tokens_, 0);
    }
    expect_clean(*started, scenario);
  }

  static void expect_clean(EngineUnderTest& under_test, const Scenario& scenario) {
    under_test.engine->drain(TimePoint::max());
    const engine::EngineCounters counters = under_test.engine->counters();
    if (counters.preemptions > 0)
      std::printf("[          ] %d preemptions, %d by swap\n",
                  static_cast<int>(counters.preemptions),
                  static_cast<int>(counters.swaps_in));
    if (scenario.must_preempt) {
      EXPECT_GT(counters.preemptions, 0u);
    }
    if (scenario.must_preempt && scenario.engine.host_blocks > 0) {
      EXPECT_GT(counters.swaps_in, 0u);
    }
    if (scenario.choices) {
      EXPECT_GT(counters.forks, 0u);
      EXPECT_GT(counters.block_copies, 0u);
    }
    EXPECT_EQ(counters.running, 0);
    EXPECT_EQ(counters.waiting, 0);
    EXPECT_EQ(counters.free_blocks, counters.total_blocks);
    EXPECT_EQ(counters.free_host_blocks, counters.total_host_blocks);
    EXPECT_EQ(counters.device_failures, 0u);
    EXPECT_EQ(counters.corrupted, 0u);
  }

  std::vector<Question> questions_;
  std::vector<std::vector<Answer>> truth_;
  std::map<int, std::unique_ptr<Machine>> machines_;
  int asked_ = 0;
  int differences_ = 0;
  int64_t cached_tokens_ = 0;
};

// That a difference is seen: the forms and the types round differently.
TEST(SameAnswerCheck, SeesOtherRounding) {
  const engine::FormRule expanded{.expand_from = 64, .segment = 64};
  const std::vector<Question> questions = [] {
    auto all = make_questions(12, 4096);
    std::erase_if(all, [](const Question& q) { return q.prompt.size() < 64; });
    return all;
  }();
  std::vector<std::vector<Answer>> answers;
  for (const auto& [activation, form] : {std::pair{DType::kBF16, engine::FormRule{}},
                                         std::pair{DType::kBF16, expanded},
                                         std::pair{DType::kF32, expanded}}) {
    auto machine = open_machine({.directory = kBundled, .activation = activation});
    ASSERT_TRUE(machine) << machine.error().to_line();
    auto started = start_engine(*machine, {.form = form});
    ASSERT_TRUE(started) << started.error().to_line();
    answers.emplace_back();
    for (size_t i = 0; i < questions.size(); ++i) {
      auto sink = std::make_shared<AnswerSink>();
      ASSERT_TRUE(started->engine->submit(request_of(questions[i], std::to_string(i), sink)));
      const auto got = sink->wait(1);
      ASSERT_EQ(got.size(), 1u);
      answers.back().push_back(got[0]);
    }
  }
  for (size_t other : {size_t{0}, size_t{2}})
    for (size_t i = 0; i < questions.size(); ++i)
      EXPECT_NE(difference(answers[1][i], answers[other][i]), "") << questions[i].name;
}

TEST_P(SameAnswer, WhateverHappensAround) {
  const SteadyClock clock;
  for (const Scenario& scenario : scenarios()) {
    if (is_short() && !scenario.in_short) continue;
    const TimePoint start = clock.now();
    check(scenario);
    if (HasFatalFailure() || differences_ > 20) break;
    const std::chrono::duration<double> seconds = clock.now() - start;
    std::printf("[          ] %s: %.1f s\n", scenario.name.c_str(), seconds.count());
  }
}

// Absorbed is the rule of the program; expanded runs with segments as short as blocks, so that many
// prompts have rows of both forms. What follows from the whole set once is checked with fewer
// prompts, every edge among them, in the other forms and types.
std::vector<Model> models() {
  const engine::FormRule expanded{.expand_from = 64, .segment = 64};
  return {{"tiny_bfloat16_absorbed", kBundled, DType::kBF16, {}, 64},
          {"tiny_float32_absorbed", kBundled, DType::kF32, {}, 24},
          {"tiny_bfloat16_expanded", kBundled, DType::kBF16, expanded, 24},
          {"tiny_float32_expanded", kBundled, DType::kF32, expanded, 24},
          {"llama_bfloat16", kLlama, DType::kBF16, {}, 64},
          {"llama_float32", kLlama, DType::kF32, {}, 64}};
}

INSTANTIATE_TEST_SUITE_P(All, SameAnswer, ::testing::ValuesIn(models()), [](const auto& test) {
  return test.param.name;
});

}  // namespace
}  // namespace tandem::e2e
