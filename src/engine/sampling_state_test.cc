#include "engine/sampling_state.h"

#include <gtest/gtest.h>

#include "engine/stop_rules.h"

namespace tandem::engine {
namespace {

constexpr int32_t kVocabulary = 70;

std::vector<int32_t> denied(const model::Batch& batch, int32_t row) {
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < kVocabulary; ++id)
    if ((batch.masks[static_cast<size_t>(row * batch.mask_words + id / 32)] >> (id % 32) & 1) == 0)
      ids.push_back(id);
  return ids;
}

struct Fixture {
  SamplingParams params;
  std::vector<int32_t> eos = {0, 69};
  std::vector<int32_t> prompt = {5, 6, 5};
  std::vector<int32_t> output;
  std::vector<int32_t> drafts;
  model::Batch batch;

  const kernels::SampleRow& row() {
    SamplingState state;
    state.init(params, eos, prompt, output, kVocabulary);
    state.append_row({.output = output,
                      .drafts = drafts,
                      .output_count = static_cast<int32_t>(output.size() + drafts.size()),
                      .choice = 2,
                      .position = 9},
                     batch);
    return batch.sample_rows.back();
  }
};

TEST(SamplingState, PlainRowsHaveNoMaskAndNoHistory) {
  Fixture f;
  f.output = {1, 2};
  f.params.seed = 77;
  const kernels::SampleRow row = f.row();
  EXPECT_EQ(row.mask_row, -1);
  EXPECT_EQ(row.history_count, 0);
  EXPECT_EQ(row.seed, 77u);
  EXPECT_EQ(row.choice, 2u);
  EXPECT_EQ(row.position, 9u);
  EXPECT_EQ(f.batch.mask_words, 0);
}

TEST(SamplingState, MinTokensMasksEndAndStopIds) {
  Fixture f;
  f.params.min_tokens = 2;
  f.params.stop_token_ids = {33, 1000, -4};
  f.output = {1};
  EXPECT_EQ(denied(f.batch, f.row().mask_row), (std::vector<int32_t>{0, 33, 69}));
  f.output = {1, 2};
  EXPECT_EQ(f.row().mask_row, -1);
}

TEST(SamplingState, KnowsWhenTheClientForbidsEverything) {
  Fixture f;
  const auto nothing_left = [&] {
    SamplingState state;
    state.init(f.params, f.eos, f.prompt, f.output, kVocabulary);
    return state.forbids_everything(f.output);
  };
  EXPECT_FALSE(nothing_left());
  f.params.allowed_token_ids = {69};
  EXPECT_FALSE(nothing_left());
  f.params.min_tokens = 2;  // an end token alone, and not yet
  EXPECT_TRUE(nothing_left());
  f.output = {7, 69};
  EXPECT_FALSE(nothing_left());
  f.params.bad_words = {{7, 69, 69}};
  EXPECT_TRUE(nothing_left());
}

TEST(SamplingState, AllowedIdsAndBadWords) {
  Fixture f;
  f.params.allowed_token_ids = {3, 64};
  f.params.bad_words = {{64}, {8, 9, 3}};
  EXPECT_EQ(denied(f.batch, f.row().mask_row).size(), 69u);  // 64 too
  f.output = {8, 9};
  EXPECT_EQ(denied(f.batch, f.row().mask_row).size(), 70u);
  f.params = {};
  f.params.bad_words = {{8, 9, 3}};
  EXPECT_EQ(denied(f.batch, f.row().mask_row), (std::vector<int32_t>{3}));
  f.output = {9};
  EXPECT_EQ(f.row().mask_row, -1);
}

TEST(SamplingState, HistoryCountsPromptOnlyForRepetition) {
  Fixture f;
  f.params.frequency_penalty = 1;
  f.output = {5, 8, 8};
  EXPECT_EQ(f.row().history_count, 2);
  f.params.repetition_penalty = 1.5f;
  const kernels::SampleRow row = f.row();
  ASSERT_EQ(row.history_count, 3);
  const auto* entry = f.batch.history.data() + row.history_begin;
  EXPECT_EQ(entry[0].id, 5);
  EXPECT_EQ(entry[0].in_prompt, 1);
  EXPECT_EQ(entry[0].output_count, 1);
  EXPECT_EQ(entry[1].id, 6);
  EXPECT_EQ(entry[1].output_count, 0);
  EXPECT_EQ(entry[2].id, 8);
  EXPECT_EQ(entry[2].in_prompt, 0);
  EXPECT_EQ(entry[2].output_count, 2);
}

// A row behind drafts is the row that stands there once they are output.
TEST(SamplingState, DraftsCountAsOutput) {
  Fixture f;
  f.params.frequency_penalty = 1;
  f.params.repetition_penalty = 2;
  f.params.min_tokens = 4;
  f.params.bad_words = {{8, 9, 3}, {9, 9, 4}, {6}, {1, 8, 9, 9, 2}};
  const std::vector<int32_t> all = {1, 8, 9, 9, 5, 30, 5, 30};
  for (size_t known = 0; known <= all.size(); ++known) {
    for (size_t end = known; end <= all.size(); ++end) {
      f.batch.clear();
      f.output.assign(all.begin(), all.begin() + static_cast<int64_t>(known));
      f.drafts.assign(all.begin() + static_cast<int64_t>(known),
                      all.begin() + static_cast<int64_t>(end));
      const kernels::SampleRow guessed = f.row();
      f.output.assign(all.begin(), all.begin() + static_cast<int64_t>(end));
      f.drafts.clear();
      const kernels::SampleRow drawn = f.row();
      EXPECT_EQ(denied(f.batch, guessed.mask_row), denied(f.batch, drawn.mask_row));
      ASSERT_EQ(guessed.history_count, drawn.history_count);
      for (int32_t i = 0; i < drawn.history_count; ++i) {
        const auto& a = f.batch.history[static_cast<size_t>(guessed.history_begin + i)];
        const auto& b = f.batch.history[static_cast<size_t>(drawn.history_begin + i)];
        EXPECT_EQ(a.id, b.id);
        EXPECT_EQ(a.in_prompt, b.in_prompt);
        EXPECT_EQ(a.output_count, b.output_count);
      }
    }
  }
}

TEST(TokenHistory, ManyTokens) {
  TokenHistory history;
  for (int round = 0; round < 2; ++round)
    for (int32_t id = 0; id < 5000; ++id) history.add(id * 64, round == 0);
  ASSERT_EQ(history.entries().size(), 5000u);
  for (const kernels::HistoryEntry& entry : history.entries()) {
    EXPECT_EQ(entry.in_prompt, 1);
    EXPECT_EQ(entry.output_count, 1);
  }
}

TEST(StopRules, Order) {
  SamplingParams params;
  params.min_tokens = 3;
  params.stop_token_ids = {7, 0};
  const std::vector<int32_t> eos = {0};
  EXPECT_EQ(stop_after(params, eos, 0, 2, false, false).reason, FinishReason::kNone);
  EXPECT_EQ(stop_after(params, eos, 0, 2, true, false).reason, FinishReason::kLength);
  EXPECT_EQ(stop_after(params, eos, 0, 3, true, false).reason, FinishReason::kStop);
  EXPECT_FALSE(stop_after(params, eos, 0, 3, true, false).stop_token);
  EXPECT_EQ(stop_after(params, eos, 7, 3, false, false).stop_token, 7);
  params.ignore_eos = true;
  EXPECT_EQ(stop_after(params, eos, 0, 3, false, false).stop_token, 0);
  params.stop_token_ids.clear();
  EXPECT_EQ(stop_after(params, eos, 0, 3, false, false).reason, FinishReason::kNone);
}

TEST(StopRules, RepetitionComesLastAndNotBelowMinTokens) {
  SamplingParams params;
  params.min_tokens = 3;
  EXPECT_EQ(stop_after(params, {}, 5, 2, false, true).reason, FinishReason::kNone);
  EXPECT_EQ(stop_after(params, {}, 5, 3, false, true).reason, FinishReason::kRepetition);
  EXPECT_EQ(stop_after(params, {}, 5, 3, true, true).reason, FinishReason::kLength);
}

// The definition, by brute force.
bool repeats_plainly(const RepetitionRule& rule, std::span<const int32_t> output) {
  for (int32_t size = rule.min_size; size <= rule.max_size; ++size) {
    const auto all = static_cast<size_t>(size) * static_cast<size_t>(rule.min_count);
    if (all > output.size()) continue;
    const auto tail = output.subspan(output.size() - all);
    bool same = true;
    for (size_t i = static_cast<size_t>(size); i < all; ++i)
      same = same && tail[i] == tail[i - static_cast<size_t>(size)];
    if (same) return true;
  }
  return false;
}

TEST(StopRules, RepetitionIsWhatTheDefinitionSays) {
  uint32_t state = 1;
  int found = 0;
  for (const RepetitionRule& rule :
       {RepetitionRule{1, 1, 3}, RepetitionRule{2, 3, 2}, RepetitionRule{1, 4, 4}}) {
    for (int round = 0; round < 200; ++round) {
      std::vector<int32_t> output;
      RepetitionRuns runs;
      while (output.size() < 30) {
        state = state * 1664525u + 1013904223u;
        output.push_back(static_cast<int32_t>(state >> 31));
        // Several at once, as after a resumed request.
        if (output.size() % 3 == 1) continue;
        const bool expected = repeats_plainly(rule, output);
        ASSERT_EQ(runs.repeats(rule, output), expected);
        found += expected;
      }
    }
  }
  EXPECT_GT(found, 100);
  RepetitionRuns off;
  EXPECT_FALSE(off.repeats({}, std::vector<int32_t>(50, 1)));
}

}  // namespace
}  // namespace tandem::engine
