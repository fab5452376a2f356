// Prompts that nearly fill the model's context, in chunks, with short requests beside them: the
// short ones need not wait for the long one's prompt, and none of the answers changes a bit.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../tests/e2e/answers.h"
#include "../tests/e2e/machine.h"
#include "../tests/e2e/selection.h"

namespace tandem::e2e {
namespace {

struct Case {
  std::string name;
  tensor::DType activation;
  engine::FormRule form;
};

int32_t long_prompt() { return is_short() ? 1500 : 8000; }
// The long prompt takes about thirty steps: more than the short ones' answers.
int32_t long_share() { return is_short() ? 48 : 256; }

Question long_question(int32_t vocabulary) {
  Question question;
  question.name = "the long one";
  question.prompt = repeated_text(long_prompt(), vocabulary);
  for (size_t i = 0; i < question.prompt.size(); i += 97)
    question.prompt[i] = static_cast<int32_t>(i) % vocabulary;
  question.sampling.temperature = 0;
  question.sampling.max_tokens = 12;
  question.sampling.ignore_eos = true;
  question.sampling.top_logprobs = 3;
  return question;
}

std::vector<Question> short_questions(int32_t vocabulary) {
  std::vector<Question> questions = make_questions(8, vocabulary);
  for (Question& question : questions) {
    question.prompt.resize(20, 9);
    question.sampling.max_tokens = 8;
  }
  return questions;
}

class LongContext : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    auto opened = open_machine({.directory = TANDEM_SOURCE_DIR "/models/tandem-tiny-v3",
                                .activation = GetParam().activation});
    ASSERT_TRUE(opened) << opened.error().to_line();
    machine_ = std::make_unique<Machine>(std::move(*opened));
    questions_ = short_questions(machine_->vocabulary());
    questions_.push_back(long_question(machine_->vocabulary()));
    auto started = start_engine(*machine_, {.blocks = kBlocks, .form = GetParam().form});
    ASSERT_TRUE(started) << started.error().to_line();
    for (size_t i = 0; i < questions_.size(); ++i) {
      const auto sink = ask(*started, i, "lone");
      const auto answers = sink->wait(1);
      ASSERT_EQ(answers.size(), 1u) << questions_[i].name;
      ASSERT_FALSE(answers[0].error) << answers[0].error->to_line();
      truth_.push_back(answers[0]);
    }
  }

  std::shared_ptr<AnswerSink> ask(EngineUnderTest& under_test, size_t i, const char* what) {
    auto sink = std::make_shared<AnswerSink>();
    const auto submitted =
        under_test.engine->submit(request_of(questions_[i], fmt::format("{} {}", what, i), sink));
    EXPECT_TRUE(submitted) << submitted.error().to_line();
    return sink;
  }

  static constexpr int32_t kBlocks = 140;  // the long one and a few short ones
  std::unique_ptr<Machine> machine_;
  std::vector<Question> questions_;  // the long one last
  std::vector<Answer> truth_;
};

TEST_P(LongContext, ShortRequestsNeedNotWait) {
  auto started = start_engine(*machine_,
                              {.chunk = 512,
                               .blocks = kBlocks,
                               .prefix_caching = true,
                               .form = GetParam().form,
                               .long_prefill_threshold = long_share()});
  ASSERT_TRUE(started) << started.error().to_line();
  const size_t last = questions_.size() - 1;
  // Half of the short ones are there before the long one, half come once its first chunk has run.
  std::vector<std::shared_ptr<AnswerSink>> sinks;
  for (size_t i = 0; i < last / 2; ++i) sinks.push_back(ask(*started, i, "before"));
  const auto long_sink = ask(*started, last, "long");
  while (started->engine->counters().computed_tokens < static_cast<uint64_t>(2 * long_share())) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (size_t i = last / 2; i < last; ++i) sinks.push_back(ask(*started, i, "after"));
  const auto long_answers = long_sink->wait(1);
  ASSERT_EQ(long_answers.size(), 1u);
  EXPECT_EQ(difference(long_answers[0], truth_[last]), "");
  for (size_t i = 0; i < sinks.size(); ++i) {
    const auto answers = sinks[i]->wait(1);
    ASSERT_EQ(answers.size(), 1u);
    EXPECT_EQ(difference(answers[0], truth_[i]), "") << questions_[i].name;
    // The long one's first token ends its prefill.
    EXPECT_LT(answers[0].ended, long_answers[0].first) << questions_[i].name;
  }
  EXPECT_EQ(started->engine->counters().preemptions, 0u);

  // The second time nearly all of the prompt is found, and what is found has the same bits.
  const auto again = ask(*started, last, "again")->wait(1);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(difference(again[0], truth_[last]), "");
  EXPECT_GT(again[0].cached_tokens, long_prompt() - 2 * kernels::kBlockTokens);
}

INSTANTIATE_TEST_SUITE_P(All,
                         LongContext,
                         ::testing::Values(Case{"bfloat16_absorbed", tensor::DType::kBF16, {}},
                                           Case{"bfloat16_expanded",
                                                tensor::DType::kBF16,
                                                {.expand_from = 512, .segment = 512}}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace tandem::e2e
