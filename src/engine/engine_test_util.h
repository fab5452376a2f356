#pragma once
// For the engine's tests: sinks that remember, random requests, comparison with the truth.

#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

#include "engine/config.h"
#include "engine/fake_executor.h"
#include "engine/request.h"

namespace tandem::engine {

class RecordingSink final : public EventSink {
 public:
  void on_event(TokenEvent event) override {
    const std::lock_guard lock(mutex_);
    if (event.finish != FinishReason::kNone) ++finished_;
    events_[event.choice].push_back(std::move(event));
    changed_.notify_all();
  }
  // Waits until so many choices have ended; false after 60 s.
  bool wait_finished(int32_t choices) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60), [&] { return finished_ >= choices; });
  }
  bool wait_events(int32_t choice, size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(
        lock, std::chrono::seconds(60), [&] { return events_[choice].size() >= count; });
  }
  std::vector<TokenEvent> events(int32_t choice) {
    const std::lock_guard lock(mutex_);
    return events_[choice];
  }
  int32_t finished() {
    const std::lock_guard lock(mutex_);
    return finished_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int32_t, std::vector<TokenEvent>> events_;
  int32_t finished_ = 0;
};

inline EngineConfig small_config() {
  EngineConfig config;
  config.blocks = 64;
  config.block_tokens = 4;
  config.kv_groups = 2;
  config.vocabulary = 50;
  config.max_model_len = 100;
  config.max_num_seqs = 8;
  config.max_num_batched_tokens = 32;
  config.max_prompt_logprob_rows = 5;
  config.form.segment = 8;
  config.form.expand_from = 12;
  return config;
}

inline Request plain_request(std::string id, std::vector<int32_t> prompt, int32_t max_tokens) {
  Request request;
  request.id = std::move(id);
  request.prompt = std::move(prompt);
  request.sampling.temperature = 0;
  request.sampling.max_tokens = max_tokens;
  request.sampling.ignore_eos = true;
  request.eos_ids = {0};
  request.sink = std::make_shared<RecordingSink>();
  return request;
}

inline std::vector<int32_t> random_tokens(std::mt19937& random, int32_t count, int32_t vocabulary) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % unsigned(vocabulary));
  return tokens;
}

// Every kind of request; prompts often share a beginning.
inline Request random_request(std::mt19937& random, const EngineConfig& config, std::string id) {
  const auto chance = [&](unsigned one_in) { return random() % one_in == 0; };
  const int32_t limit = config.length_limit();
  std::mt19937 family(random() % 3);
  Request r = plain_request(std::move(id), {}, 1);
  const int32_t common = static_cast<int32_t>(random() % unsigned(limit * 2 / 3));
  r.prompt = random_tokens(family, common, config.vocabulary);
  const auto own = random_tokens(random, 1 + static_cast<int32_t>(random() % 6), config.vocabulary);
  if (r.prompt.empty() || chance(2)) r.prompt.insert(r.prompt.end(), own.begin(), own.end());
  if (static_cast<int32_t>(r.prompt.size()) >= limit) r.prompt.resize(size_t(limit) - 1);
  SamplingParams& s = r.sampling;
  s.max_tokens = 1 + static_cast<int32_t>(random() % 40);
  s.ignore_eos = chance(3);
  s.temperature = chance(2) ? 0.0f : 0.7f;
  s.seed = random();
  if (chance(4)) s.min_tokens = static_cast<int32_t>(random() % unsigned(s.max_tokens + 1));
  if (chance(4)) s.stop_token_ids = {1, 2};
  if (chance(4)) s.top_logprobs = static_cast<int32_t>(random() % 4);
  if (chance(6)) s.prompt_top_logprobs = static_cast<int32_t>(random() % 3);
  if (chance(5)) s.repetition_penalty = 1.2f;
  if (chance(5)) s.frequency_penalty = 0.5f;
  if (chance(6)) s.logit_bias = {{3, 1.5f}, {9, -2.0f}};
  if (chance(6)) s.allowed_token_ids = {0, 3, 4, 5, 6, 7, 30, 31, 32, 33, 49};
  if (chance(6)) s.bad_words = {{4}, {3, 5}, {7, 7, 7}};
  if (chance(5)) r.choices = 1 + static_cast<int32_t>(random() % 4);
  if (chance(8)) r.cache_salt = "salt";
  if (chance(8)) r.tenant_salt = "tenant";
  if (chance(8)) r.priority = static_cast<int32_t>(random() % 3) - 1;
  if (r.choices == 1 && chance(8) && static_cast<int32_t>(r.prompt.size()) + 2 < limit &&
      s.max_tokens > 2)
    r.resume_output = {11, 12};
  return r;
}

// The events of a choice are those of its lone run, or, if it was ended, their beginning.
inline void expect_truth(const EngineConfig& config,
                         const Request& request,
                         int32_t choice,
                         const std::vector<TokenEvent>& events) {
  ASSERT_FALSE(events.empty());
  const std::vector<TokenEvent> truth = fake_answer(config, request, choice);
  for (size_t i = 0; i < events.size(); ++i) {
    const TokenEvent& event = events[i];
    if (event.token < 0) {
      EXPECT_EQ(i + 1, events.size());
      EXPECT_TRUE(event.finish == FinishReason::kAbort || event.finish == FinishReason::kError);
      break;
    }
    ASSERT_LT(i, truth.size()) << request.id;
    ASSERT_EQ(event.token, truth[i].token) << request.id << " choice " << choice << " token " << i;
    ASSERT_EQ(event.finish, truth[i].finish) << request.id << " token " << i;
    ASSERT_EQ(event.stop_token, truth[i].stop_token);
    ASSERT_EQ(event.logprobs.has_value(), truth[i].logprobs.has_value());
    if (event.logprobs) {
      ASSERT_EQ(event.logprobs->logprob, truth[i].logprobs->logprob);
      ASSERT_EQ(event.logprobs->rank, truth[i].logprobs->rank);
      ASSERT_EQ(event.logprobs->top, truth[i].logprobs->top);
    }
    ASSERT_EQ(event.prompt_logprob_ids, truth[i].prompt_logprob_ids);
    ASSERT_EQ(event.prompt_logprobs.size(), truth[i].prompt_logprobs.size());
    for (size_t p = 0; p < event.prompt_logprobs.size(); ++p) {
      ASSERT_EQ(event.prompt_logprobs[p].logprob, truth[i].prompt_logprobs[p].logprob);
      ASSERT_EQ(event.prompt_logprobs[p].top, truth[i].prompt_logprobs[p].top);
    }
  }
  ASSERT_NE(events.back().finish, FinishReason::kNone);
}

}  // namespace tandem::engine
