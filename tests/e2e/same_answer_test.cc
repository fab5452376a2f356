// "Same answer" (docs/same_answer.md): whatever happens around a greedy or seeded request, its ids
// and log-probabilities are those of its lone run, to the bit.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
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

// The least selection that a scenario is part of.
enum class Selection { kShort, kFewPrompts, kAll };

struct Scenario {
  std::string name;
  Selection least = Selection::kShort;
  EngineOptions engine;
  int threads = 2;
  int32_t noise = 0;          // other requests among the questions; some are aborted
  bool twice = false;         // the second time with the cache of the first
  bool choices = false;       // the questions with n = 4 beside those with n = 1
  bool preempt_each = false;  // one by one, each beside a request that takes its blocks
  bool must_preempt = false;
};

// Holds the longest question with its answer, and little more.
constexpr int32_t kTinyPool = 14;
constexpr int32_t kPreemptChunk = 64;

void add_preemptions(std::vector<Scenario>& list) {
  list.push_back({.name = "preempted by recompute",
                  .engine = {.chunk = kPreemptChunk, .prefix_caching = false},
                  .preempt_each = true});
  list.push_back({.name = "preempted by swap",
                  .engine = {.chunk = kPreemptChunk,
                             .host_blocks = kTinyPool,
                             .preemption = PreemptionMode::kSwap},
                  .preempt_each = true});
  list.push_back(
      {.name = "tiny pool, two steps in flight",
       .least = Selection::kAll,
       .engine =
           {.chunk = 64, .batch = 12, .blocks = kTinyPool, .depth = 2, .prefix_caching = true},
       .must_preempt = true});
  list.push_back({.name = "tiny pool and host tier, two steps in flight",
                  .least = Selection::kFewPrompts,
                  .engine = {.chunk = 48,
                             .batch = 12,
                             .blocks = kTinyPool,
                             .host_blocks = 9,
                             .depth = 2,
                             .prefix_caching = true,
                             .preemption = PreemptionMode::kSwap},
                  .must_preempt = true});
}

std::vector<Scenario> scenarios() {
  std::vector<Scenario> list;
  for (const int32_t batch : {1, 2, 7, 33})
    list.push_back({.name = fmt::format("batch of {}", batch),
                    .least = batch == 7    ? Selection::kShort
                             : batch == 33 ? Selection::kFewPrompts
                                           : Selection::kAll,
                    .engine = {.batch = batch, .prefix_caching = batch == 7},
                    .noise = 16});
  for (const int32_t chunk : {1, 16, 512})
    list.push_back({.name = fmt::format("chunks of {}", chunk),
                    .least = chunk == 16 ? Selection::kShort : Selection::kFewPrompts,
                    .engine = {.chunk = chunk, .batch = 9}});
  add_preemptions(list);
  list.push_back({.name = "prefix warm",
                  .engine = {.batch = 5, .blocks = 600, .prefix_caching = true},
                  .twice = true});
  list.push_back({.name = "prefix warm, chunks of 48",
                  .least = Selection::kAll,
                  .engine = {.chunk = 48, .batch = 6, .blocks = 600, .prefix_caching = true},
                  .twice = true});
  for (const int threads : {1, 3})
    list.push_back({.name = fmt::format("{} threads", threads),
                    .least = threads == 3 ? Selection::kShort : Selection::kFewPrompts,
                    .engine = {.chunk = 200, .batch = 7},
                    .threads = threads});
  list.push_back({.name = "two steps in flight",
                  .engine = {.chunk = 96, .batch = 8, .depth = 2, .prefix_caching = true},
                  .noise = 16});
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
  Selection selection;
  system::InstructionSet instruction_set =
      system::best_instruction_set(system::detect_cpu_features());
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
    questions_ =
        make_questions(std::min(is_short() ? 12 : 64, GetParam().prompts), machine->vocabulary());
    truth_ = lone_runs(*machine, questions_);
    ASSERT_EQ(truth_.size(), questions_.size());
  }

  Machine* machine_with(int threads) {
    auto& machine = machines_[threads];
    if (!machine) {
      auto opened = open_machine({.directory = GetParam().directory,
                                  .activation = GetParam().activation,
                                  .threads = threads,
                                  .instruction_set = GetParam().instruction_set});
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

  Asked ask(EngineUnderTest& under_test, const Question& question, int32_t priority = 0) {
    Asked asked{&question, std::make_shared<AnswerSink>(), fmt::format("request {}", asked_++)};
    engine::Request request = request_of(question, asked.id, asked.sink);
    request.priority = priority;
    const auto submitted = under_test.engine->submit(std::move(request));
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
    if (scenario.preempt_each) return preempt_each(scenario);
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

  // A pool with one block more than the prompt has, which goes to a request of higher priority:
  // that one's answer needs a second block after a few steps, and the question's are what it can
  // have.
  void preempt_each(const Scenario& scenario) {
    std::map<int32_t, std::vector<size_t>> by_blocks;
    for (size_t i = 0; i < questions_.size(); ++i) {
      const auto tokens = static_cast<int32_t>(questions_[i].prompt.size());
      by_blocks[(tokens + kernels::kBlockTokens - 1) / kernels::kBlockTokens].push_back(i);
    }
    int preempted = 0;
    for (const auto& [blocks, indices] : by_blocks) {
      EngineOptions options = scenario.engine;
      options.blocks = std::max(blocks + 1, 2);
      options.form = GetParam().form;
      auto started = start_engine(*machine_with(2), options);
      ASSERT_TRUE(started) << started.error().to_line();
      for (const size_t i : indices) {
        // Shorter answers may be over before.
        const bool wanted = truth_[i][0].ids.size() >= 8;
        bool done = false;
        for (int tries = 0; tries < 50 && !done; ++tries)
          done = preempt_one(*started, i) || !wanted;
        EXPECT_TRUE(done) << questions_[i].name << " was never preempted";
        ++preempted;
        if (HasFatalFailure()) return;
      }
      expect_clean(*started, scenario);
    }
    std::printf("[          ] %d preempted\n", preempted);
  }

  // False: the question was over before the other request grew.
  bool preempt_one(EngineUnderTest& under_test, size_t i) {
    // Steps until the question has all its blocks: the other one, with a token a step, needs its
    // second block shortly after.
    const auto tokens = static_cast<int32_t>(questions_[i].prompt.size());
    const int32_t steps = tokens / (kPreemptChunk - 1) + 3;
    Question taker = make_noise(1, 256, 5)[0];
    taker.prompt.assign(static_cast<size_t>(kernels::kBlockTokens - steps), 7);
    taker.sampling = {.temperature = 0, .max_tokens = steps + 3, .ignore_eos = true};
    taker.choices = 1;
    const Asked beside = ask(under_test, taker, /*priority=*/-1);
    const Asked asked = ask(under_test, questions_[i]);
    const auto answers = asked.sink->wait(1);
    compare(asked, truth_[i]);
    EXPECT_EQ(beside.sink->wait(1).size(), 1u);
    return answers.size() == 1 && answers[0].preemptions > 0;
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
    if (scenario.engine.host_blocks > 0) {
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
    if (scenario.least > (is_short() ? Selection::kShort : GetParam().selection)) continue;
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
  return {{"tiny_bfloat16_absorbed", kBundled, DType::kBF16, {}, 64, Selection::kAll},
          {"tiny_float32_absorbed", kBundled, DType::kF32, {}, 24, Selection::kFewPrompts},
          {"tiny_bfloat16_expanded", kBundled, DType::kBF16, expanded, 24, Selection::kFewPrompts},
          {"tiny_float32_expanded", kBundled, DType::kF32, expanded, 24, Selection::kFewPrompts},
          {"llama_bfloat16", kLlama, DType::kBF16, {}, 64, Selection::kAll},
          {"llama_float32", kLlama, DType::kF32, {}, 64, Selection::kAll}};
}

// The guarantee is each instruction set's own; that they agree with each other is not part of it.
// Generic code multiplies through libm, so the smaller model is for it.
std::vector<Model> other_instruction_sets() {
  using system::InstructionSet;
  const system::CpuFeatures features = system::detect_cpu_features();
  std::vector<Model> list;
  if (is_short()) return list;
  for (const auto set : {InstructionSet::kGeneric, InstructionSet::kAvx2}) {
    if (!system::supports(features, set) || set == system::best_instruction_set(features)) continue;
    const bool slow = set == InstructionSet::kGeneric;
    list.push_back({fmt::format("{}_bfloat16_{}", slow ? "llama" : "tiny", system::to_string(set)),
                    slow ? kLlama : kBundled,
                    DType::kBF16,
                    {},
                    12,
                    Selection::kShort,
                    set});
  }
  return list;
}

std::string name_of(const ::testing::TestParamInfo<Model>& test) { return test.param.name; }

INSTANTIATE_TEST_SUITE_P(All, SameAnswer, ::testing::ValuesIn(models()), name_of);
INSTANTIATE_TEST_SUITE_P(InstructionSets,
                         SameAnswer,
                         ::testing::ValuesIn(other_instruction_sets()),
                         name_of);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SameAnswer);

}  // namespace
}  // namespace tandem::e2e
