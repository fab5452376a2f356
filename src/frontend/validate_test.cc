#include "frontend/validate.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tandem::frontend {
namespace {

const RequestLimits kLimits{.max_model_len = 100, .vocabulary = 50};

Checked<ValidatedOptions> validate(const GenerationOptions& options,
                                   const model::GenerationDefaults& defaults = {}) {
  return validate_options(options, defaults, kLimits, 10, 16);
}

void expect_refused(const GenerationOptions& options, const char* param) {
  const auto result = validate(options);
  ASSERT_FALSE(result) << param;
  EXPECT_EQ(result.error().param, param);
  EXPECT_NE(result.error().message.find(param), std::string::npos);
}

TEST(Validate, DefaultsAreVllms) {
  const ValidatedOptions v = validate({}).value();
  EXPECT_EQ(v.sampling.temperature, 1.0f);
  EXPECT_EQ(v.sampling.max_tokens, 16);
  EXPECT_EQ(v.sampling.top_logprobs, -1);
  EXPECT_FALSE(v.seeded);
}

TEST(Validate, ModelDefaultsStandInForSilence) {
  const model::GenerationDefaults defaults{.temperature = 0.6, .top_p = 0.95};
  EXPECT_FLOAT_EQ(validate({}, defaults).value().sampling.temperature, 0.6f);
  EXPECT_FLOAT_EQ(validate({.temperature = 0.0}, defaults).value().sampling.temperature, 0.0f);
}

TEST(Validate, TinyTemperaturesAreGreedyOrRaised) {
  EXPECT_EQ(validate({.temperature = 1e-8}).value().sampling.temperature, 0.0f);
  EXPECT_EQ(validate({.temperature = 1e-4}).value().sampling.temperature, 0.01f);
}

TEST(Validate, RangesNameTheField) {
  expect_refused({.temperature = 2.1}, "temperature");
  expect_refused({.temperature = NAN}, "temperature");
  expect_refused({.top_p = 0.0}, "top_p");
  expect_refused({.top_k = -2}, "top_k");
  expect_refused({.min_p = 1.1}, "min_p");
  expect_refused({.repetition_penalty = 0.0}, "repetition_penalty");
  expect_refused({.presence_penalty = -2.5}, "presence_penalty");
  expect_refused({.n = 0}, "n");
  expect_refused({.max_tokens = 0}, "max_tokens");
  expect_refused({.min_tokens = 17}, "min_tokens");
  expect_refused({.stop = {"ok", ""}}, "stop");
  expect_refused({.stop_token_ids = {50}}, "stop_token_ids");
  expect_refused({.logit_bias = {{-1, 1.0}}}, "logit_bias");
  expect_refused({.allowed_token_ids = std::vector<int64_t>{}}, "allowed_token_ids");
  expect_refused({.logprobs = 21}, "logprobs");
  using Repetition = GenerationOptions::Repetition;
  for (const Repetition& wrong : {Repetition{0, 4, 1},
                                  Repetition{5, 4, 2},
                                  Repetition{-1, 4, 2},
                                  Repetition{0, -1, 2},
                                  Repetition{0, 1025, 2}})
    expect_refused({.repetition = wrong}, "repetition_detection");
}

TEST(Validate, LengthIsCutToTheContext) {
  EXPECT_EQ(validate({.max_tokens = 500}).value().sampling.max_tokens, 90);
  EXPECT_EQ(validate_options({}, {}, kLimits, 10, std::nullopt).value().sampling.max_tokens, 90);
  // An unset maximum may not make an impossible minimum possible.
  expect_refused({.min_tokens = 999999}, "min_tokens");
}

TEST(Validate, PromptsAreChecked) {
  EXPECT_FALSE(check_prompt({}, {}, kLimits));
  EXPECT_FALSE(check_prompt({50}, {}, kLimits));
  EXPECT_FALSE(check_prompt({-1}, {}, kLimits));
  EXPECT_TRUE(check_prompt({49}, {}, kLimits));
  const auto too_long = check_prompt(std::vector<int32_t>(100, 1), {}, kLimits);
  ASSERT_FALSE(too_long);
  EXPECT_NE(too_long.error().message.find("100"), std::string::npos);
  EXPECT_EQ(check_prompt({1, 2, 3, 4}, {.truncate_prompt_tokens = 2}, kLimits).value(),
            (std::vector<int32_t>{3, 4}));
  EXPECT_EQ(check_prompt({1, 2, 3, 4}, {.truncate_prompt_tokens = 2, .truncate_end = true}, kLimits)
                .value(),
            (std::vector<int32_t>{1, 2}));
}

// Adds prompts until one is refused; how many were accepted, and the field that is blamed.
std::pair<int, std::string> prompts_accepted(const ValidatedOptions& options,
                                             bool streamed,
                                             RequestLimits limits = {}) {
  CallSize size(limits, streamed);
  for (int prompts = 0; prompts < 10'000; ++prompts) {
    if (const auto added = size.add(100, options); !added) return {prompts, added.error().param};
  }
  return {10'000, ""};
}

TEST(CallSize, ManyPromptsAreCountedTogether) {
  using Result = std::pair<int, std::string>;
  const RequestLimits limits{.max_sequences = 1000, .max_list_ids = 500, .max_kept_logprobs = 5000};
  ValidatedOptions o;
  o.choices = 128;
  EXPECT_EQ(prompts_accepted(o, false, limits), Result(7, "n"));
  o.choices = 2;
  EXPECT_EQ(prompts_accepted(o, false, limits), Result(500, "n"));

  o.sampling.max_tokens = 50;
  o.sampling.top_logprobs = 4;  // 2 x 50 x 5 entries
  EXPECT_EQ(prompts_accepted(o, false, limits), Result(10, "logprobs"));
  EXPECT_EQ(prompts_accepted(o, true, limits), Result(500, "n"));
  o.sampling.prompt_top_logprobs = 9;  // 100 x 10
  EXPECT_EQ(prompts_accepted(o, true, limits), Result(5, "logprobs"));

  o = {};
  o.sampling.bad_words = {{1, 2}, {3}};  // 2 + 1, and 14 for each
  EXPECT_EQ(prompts_accepted(o, false, limits), Result(16, "prompt"));
}

TEST(CallSize, OneLargeRequestIsWithinTheLimits) {
  ValidatedOptions o;
  o.sampling.max_tokens = 160'000;
  o.sampling.top_logprobs = 20;
  CallSize size(RequestLimits{}, false);
  EXPECT_TRUE(size.add(1000, o));
}

}  // namespace
}  // namespace tandem::frontend
