#include <limits>

#include "kernels/cpu/common/cpu_test_util.h"

namespace tandem::kernels::testing {
namespace {

constexpr int64_t kVocabulary = 3001;

SampleRow row_with(float temperature, int32_t top_k, float top_p, float min_p) {
  SampleRow row;
  row.temperature = temperature;
  row.top_k = top_k;
  row.top_p = top_p;
  row.min_p = min_p;
  row.top_logprobs = 5;
  return row;
}

// Rows of all kinds, each with many seeds.
SampleCase make_case(Random& random, float spread) {
  SampleCase c;
  const std::vector<SampleRow> kinds = {
      row_with(0, 0, 1, 0),
      row_with(1, 0, 1, 0),
      row_with(0.5f, 40, 1, 0),
      row_with(1.5f, 0, 0.9f, 0),
      row_with(1, 0, 1, 0.05f),
      row_with(0.8f, 100, 0.7f, 0.001f),
      row_with(1, 1, 1, 0),
      row_with(1, 0, 0, 0),
      row_with(1e-30f, 0, 0.5f, 0),
      row_with(30.0f, 5000, 0.999f, 2.0f),
  };
  for (uint32_t i = 0; i < 60; ++i) {
    SampleRow row = kinds[i % kinds.size()];
    row.seed = 0x123456789abcdefull * i;
    row.position = i;
    row.choice = i % 3;
    c.rows.push_back(row);
  }
  c.logits =
      random_rows(random, DType::kF32, static_cast<int64_t>(c.rows.size()), kVocabulary, spread);
  for (int64_t id = 100; id < 160; ++id) c.logits.set(2, id, 9.0f);  // ties across top_k
  for (int64_t id = 100; id < 160; ++id) c.logits.set(3, id, 9.0f);
  c.bias_ids = {5, 17};
  c.bias_values = {30.0f, -std::numeric_limits<float>::infinity()};
  c.history = {{100, 1, 0}, {200, 0, 3}};
  c.masks.assign((kVocabulary + 31) / 32, 0x55555555u);
  for (const size_t r : {10u, 11u}) {
    c.rows[r].bias_count = 2;
    c.rows[r + 2].history_count = 2;
    c.rows[r + 2].repetition_penalty = 1.3f;
    c.rows[r + 2].presence_penalty = 0.4f;
    c.rows[r + 2].frequency_penalty = 0.2f;
    c.rows[r + 4].mask_row = 0;
  }
  c.rows[20].forced_id = 77;
  c.max_top_logprobs = 6;
  return c;
}

TEST(CpuSample, DrawsWhatTheReferenceDraws) {
  Random random(30);
  TestDevice reference(open_reference_device(DType::kF32));
  for (const float spread : {0.01f, 1.0f, 6.0f}) {
    const SampleCase c = make_case(random, spread);
    const SampleOutput expected = run_sample(reference, c);
    for (const auto set : instruction_sets()) {
      const SampleOutput got = run_sample(*cpu_device(DType::kF32, set, 2), c);
      EXPECT_EQ(got.ids, expected.ids);
      EXPECT_EQ(got.top_ids, expected.top_ids);
      for (size_t r = 0; r < c.rows.size(); ++r) {
        EXPECT_EQ(got.results[r].id, expected.results[r].id) << r;
        EXPECT_EQ(got.results[r].rank, expected.results[r].rank);
        EXPECT_EQ(got.results[r].invalid, expected.results[r].invalid);
        EXPECT_NEAR(got.results[r].logprob, expected.results[r].logprob, 2e-5f);
      }
      for (size_t i = 0; i < got.top_logprobs.size(); ++i) {
        EXPECT_NEAR(got.top_logprobs[i], expected.top_logprobs[i], 2e-5f);
      }
    }
  }
}

TEST(CpuSample, BadLogitsEndTheirRowAlone) {
  const float inf = std::numeric_limits<float>::infinity();
  SampleCase c;
  c.logits = HostRows(DType::kF32, 5, 33);
  c.logits.set(0, 32, std::nanf(""));
  c.logits.set(1, 7, inf);
  for (int64_t i = 0; i < 33; ++i) c.logits.set(2, i, -inf);
  c.logits.set(4, 9, 1.0f);
  for (int i = 0; i < 5; ++i) c.rows.push_back(row_with(i % 2 ? 0.0f : 1.0f, 0, 1, 0));
  c.rows[3].mask_row = 0;
  c.rows[4].temperature = 0;
  c.masks = {0, 0};
  c.max_top_logprobs = 5;
  for (const auto set : instruction_sets()) {
    const SampleOutput got = run_sample(*cpu_device(DType::kF32, set), c);
    for (size_t r = 0; r < 4; ++r) EXPECT_EQ(got.results[r].invalid, 1) << r;
    EXPECT_EQ(got.results[4].invalid, 0);
    EXPECT_EQ(got.ids, (std::vector<int32_t>{0, 0, 0, 0, 9}));
  }
}

TEST(CpuSample, GreedyTiesGoToTheLowestId) {
  SampleCase c;
  c.logits = HostRows(DType::kF32, 1, 100);
  for (const int64_t id : {99, 40, 41}) c.logits.set(0, id, 2.0f);
  c.rows = {row_with(0, 0, 1, 0)};
  c.rows[0].top_logprobs = -1;
  for (const auto set : instruction_sets()) {
    EXPECT_EQ(run_sample(*cpu_device(DType::kF32, set), c).ids[0], 40);
  }
}

}  // namespace
}  // namespace tandem::kernels::testing
