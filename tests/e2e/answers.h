#pragma once
// For end-to-end tests: requests, what comes back, and equality to the bit.

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/request.h"

namespace tandem::e2e {

// What a client of one choice sees.
struct Answer {
  std::vector<int32_t> ids;
  std::vector<engine::TokenLogprobs> logprobs;         // one a token, if asked for
  std::vector<engine::TokenLogprobs> prompt_logprobs;  // if asked for
  engine::FinishReason finish = engine::FinishReason::kNone;
  std::optional<Error> error;
  int32_t cached_tokens = 0;
  int32_t preemptions = 0;
  TimePoint first{};  // when the first token came
  TimePoint ended{};
};

// Empty: the same ids, ends and log-probabilities to the bit; else the first difference. What tells
// of the way (cached tokens, preemptions, times) is not compared.
std::string difference(const Answer& got, const Answer& wanted);

// Collects a request's events. Any thread.
class AnswerSink final : public engine::EventSink {
 public:
  void on_event(engine::TokenEvent event) override;
  // The answers by choice once all have ended; fewer after `seconds`.
  std::vector<Answer> wait(int32_t choices, int seconds = 300);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int32_t, Answer> answers_;
  int32_t ended_ = 0;
};

// One prompt with the parameters that it is always asked with.
struct Question {
  std::string name;
  std::vector<int32_t> prompt;
  engine::SamplingParams sampling;
  int32_t choices = 1;
};

engine::Request request_of(const Question& question,
                           const std::string& id,
                           std::shared_ptr<AnswerSink> sink);

// Ids of a sentence, again and again.
std::vector<int32_t> repeated_text(int32_t count, int32_t vocabulary);

// Two questions for each of `prompts` prompts of 1 … 300 and a few of more than 512 tokens: greedy,
// and seeded with all kinds of parameters. Always the same ones.
std::vector<Question> make_questions(int32_t prompts, int32_t vocabulary);

// Requests that nobody compares: random prompts, temperatures, penalties, masks, choices.
std::vector<Question> make_noise(int32_t count, int32_t vocabulary, uint32_t seed);

}  // namespace tandem::e2e
