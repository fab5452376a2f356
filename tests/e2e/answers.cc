#include "../tests/e2e/answers.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <random>
#include <utility>

namespace tandem::e2e {
namespace {

bool same_bits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

bool same(const engine::TokenLogprobs& a, const engine::TokenLogprobs& b) {
  return same_bits(a.logprob, b.logprob) && a.rank == b.rank &&
         std::equal(a.top.begin(),
                    a.top.end(),
                    b.top.begin(),
                    b.top.end(),
                    [](const auto& x, const auto& y) {
                      return x.first == y.first && same_bits(x.second, y.second);
                    });
}

std::string difference(const char* what,
                       const std::vector<engine::TokenLogprobs>& got,
                       const std::vector<engine::TokenLogprobs>& wanted) {
  if (got.size() != wanted.size())
    return fmt::format("{} of {} tokens instead of {}", what, got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i)
    if (!same(got[i], wanted[i]))
      return fmt::format("{} of token {}: {:a} rank {} instead of {:a} rank {} (or those beside)",
                         what,
                         i,
                         got[i].logprob,
                         got[i].rank,
                         wanted[i].logprob,
                         wanted[i].rank);
  return {};
}

std::vector<int32_t> random_ids(std::mt19937& random, int32_t count, int32_t vocabulary) {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  for (int32_t& id : ids) id = static_cast<int32_t>(random() % static_cast<uint32_t>(vocabulary));
  return ids;
}

// Parameters of seeded question `i`: plain ones and each of the others in turn.
void vary(engine::SamplingParams& s, int32_t i, std::mt19937& random, int32_t vocabulary) {
  s.temperature = 0.7f + 0.1f * static_cast<float>(i % 6);
  s.seed = 1000u + static_cast<uint32_t>(i);
  switch (i % 7) {
    case 1:
      s.top_p = 0.9f;
      break;
    case 2:
      s.top_k = 20;
      s.repetition_penalty = 1.2f;
      break;
    case 3:
      s.min_p = 0.05f;
      s.presence_penalty = 0.5f;
      s.frequency_penalty = 0.25f;
      break;
    case 4:
      s.logit_bias = {{5, 2.0f}, {7, -3.0f}};
      s.bad_words = {{4}, {3, 5}};
      break;
    case 5:
      s.allowed_token_ids = random_ids(random, 60, vocabulary);
      break;
    case 6:
      s.min_tokens = 4;
      s.stop_token_ids = random_ids(random, 8, vocabulary);
      break;
    default:
      break;
  }
}

}  // namespace

std::string difference(const Answer& got, const Answer& wanted) {
  if (got.error) return "error: " + got.error->to_line();
  for (size_t i = 0; i < std::min(got.ids.size(), wanted.ids.size()); ++i)
    if (got.ids[i] != wanted.ids[i])
      return fmt::format("token {}: id {} instead of {}", i, got.ids[i], wanted.ids[i]);
  if (got.ids.size() != wanted.ids.size())
    return fmt::format("{} tokens instead of {}", got.ids.size(), wanted.ids.size());
  if (got.finish != wanted.finish) return "another finish reason";
  std::string text = difference("logprobs", got.logprobs, wanted.logprobs);
  if (text.empty())
    text = difference("prompt logprobs", got.prompt_logprobs, wanted.prompt_logprobs);
  return text;
}

void AnswerSink::on_event(engine::TokenEvent event) {
  const std::lock_guard lock(mutex_);
  Answer& answer = answers_[event.choice];
  if (event.token >= 0 && answer.ids.empty()) answer.first = SteadyClock().now();
  if (event.token >= 0) answer.ids.push_back(event.token);
  if (event.logprobs) answer.logprobs.push_back(std::move(*event.logprobs));
  for (engine::TokenLogprobs& entry : event.prompt_logprobs)
    answer.prompt_logprobs.push_back(std::move(entry));
  answer.cached_tokens = event.cached_tokens;
  answer.preemptions = event.preemptions;
  answer.error = std::move(event.error);
  if (event.finish != engine::FinishReason::kNone) {
    answer.finish = event.finish;
    answer.ended = SteadyClock().now();
    ++ended_;
  }
  changed_.notify_all();
}

std::vector<Answer> AnswerSink::wait(int32_t choices, int seconds) {
  std::unique_lock lock(mutex_);
  std::vector<Answer> answers;
  if (!changed_.wait_for(lock, std::chrono::seconds(seconds), [&] { return ended_ >= choices; }))
    return answers;
  for (auto& [choice, answer] : answers_) answers.push_back(answer);
  return answers;
}

engine::Request request_of(const Question& question,
                           const std::string& id,
                           std::shared_ptr<AnswerSink> sink) {
  engine::Request request;
  request.id = id;
  request.prompt = question.prompt;
  request.sampling = question.sampling;
  request.choices = question.choices;
  request.eos_ids = {1};
  request.sink = std::move(sink);
  return request;
}

std::vector<int32_t> repeated_text(int32_t count, int32_t vocabulary) {
  std::mt19937 random(7);
  const std::vector<int32_t> sentence = random_ids(random, 23, vocabulary);
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < count; ++i)
    ids.push_back(sentence[static_cast<size_t>(i) % sentence.size()]);
  return ids;
}

std::vector<Question> make_questions(int32_t prompts, int32_t vocabulary) {
  // Around every edge: blocks and segments of 64, register and task tiles, splits of attention.
  constexpr std::array<int32_t, 24> kEdges = {1,   2,   3,   4,   7,   8,   15, 16,
                                              17,  31,  33,  48,  63,  64,  65, 96,
                                              127, 128, 129, 191, 193, 256, 2,  300};
  std::mt19937 random(2024);
  std::vector<Question> questions;
  for (int32_t i = 0; i < prompts; ++i) {
    Question q;
    if (i % 16 == 10) {
      q.prompt = repeated_text(513 + 37 * (i / 16), vocabulary);
    } else {
      const int32_t length =
          i < 24 ? kEdges[static_cast<size_t>(i)] : 1 + static_cast<int32_t>(random() % 110);
      q.prompt = random_ids(random, length, vocabulary);
    }
    q.sampling.temperature = 0;
    q.sampling.max_tokens = 8 + i % 9;
    q.sampling.ignore_eos = i % 5 != 0;
    q.sampling.top_logprobs = i % 4;
    if (i % 11 == 4) q.sampling.prompt_top_logprobs = 1;
    q.name = fmt::format("prompt {} of {} tokens, greedy", i, q.prompt.size());
    questions.push_back(q);
    vary(q.sampling, i, random, vocabulary);
    q.name = fmt::format("prompt {} of {} tokens, seeded", i, q.prompt.size());
    questions.push_back(std::move(q));
  }
  return questions;
}

std::vector<Question> make_noise(int32_t count, int32_t vocabulary, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Question> noise;
  for (int32_t i = 0; i < count; ++i) {
    Question q;
    q.prompt = random_ids(random, 1 + static_cast<int32_t>(random() % 90), vocabulary);
    vary(q.sampling, static_cast<int32_t>(random() % 100), random, vocabulary);
    q.sampling.max_tokens = 4 + static_cast<int32_t>(random() % 20);
    q.choices = 1 + static_cast<int32_t>(random() % 2);
    noise.push_back(std::move(q));
  }
  return noise;
}

}  // namespace tandem::e2e
