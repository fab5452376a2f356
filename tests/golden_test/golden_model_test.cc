// Golden checkpoints through StepRunner: chunked prefill and decode through the paged cache, on the
// reference and the CPU device. Tolerances and the rule for greedy ids: tests/golden/README.md.

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <ostream>
#include <tuple>

#include "support/golden.h"
#include "support/model_runner.h"

namespace tandem::testing {
namespace {

using tensor::DType;

constexpr double kFp32Tolerance = 2e-4;
constexpr double kFp32Tie = 1e-3;
constexpr double kBf16Gap = 0.5;

struct GoldenCase {
  std::string checkpoint;
  DeviceKind kind;
  DType activation;
  int32_t expand_from = 0;
  bool moe = true;
  std::string name() const {
    return checkpoint + (kind == DeviceKind::kReference ? "_reference" : "_cpu") +
           (activation == DType::kF32 ? "_float32" : "_bfloat16") +
           (expand_from ? "_expanded" : "");
  }
};

void PrintTo(const GoldenCase& c, std::ostream* out) { *out << c.name(); }

// Differences to the saved logits, and how often the largest is the same.
struct Tally {
  std::vector<double> errors;
  int clear_positions = 0;  // gap > 0.5
  int clear_agreed = 0;

  void add_row(const float* found, const float* wanted, size_t count) {
    for (size_t i = 0; i < count; ++i) errors.push_back(std::abs(double{found[i]} - wanted[i]));
  }
  void add_choice(bool agreed, double gap) {
    if (gap <= kBf16Gap) return;
    ++clear_positions;
    clear_agreed += agreed;
  }
  double mean() const {
    return std::accumulate(errors.begin(), errors.end(), 0.0) / static_cast<double>(errors.size());
  }
  double quantile(double q) {
    std::sort(errors.begin(), errors.end());
    return errors[static_cast<size_t>(q * static_cast<double>(errors.size() - 1))];
  }
};

int32_t argmax(const float* row, size_t count) {
  return static_cast<int32_t>(std::max_element(row, row + count) - row);
}

class GoldenModel : public ::testing::TestWithParam<GoldenCase> {
 protected:
  void check_prompt(Machine& machine,
                    BlockSource& blocks,
                    const GoldenExpectation& golden,
                    const GoldenPrompt& prompt);
  void check_prefill(const GoldenExpectation& golden,
                     const GoldenPrompt& prompt,
                     const std::vector<float>& logits);
  void check_decode(Machine& machine,
                    BlockSource& blocks,
                    TestSequence& sequence,
                    const GoldenPrompt& prompt,
                    std::vector<float>& last);

  size_t vocabulary_ = 0;
  Tally tally_;
};

void GoldenModel::check_prefill(const GoldenExpectation& golden,
                                const GoldenPrompt& prompt,
                                const std::vector<float>& logits) {
  const size_t v = vocabulary_;
  ASSERT_EQ(logits.size(), prompt.ids.size() * v);
  if (const auto* all = golden.find(prompt.name + ".logits")) {
    for (size_t t = 0; t < prompt.ids.size(); ++t) {
      const float* wanted = all->as<float>() + t * v;
      tally_.add_row(&logits[t * v], wanted, v);
      std::vector<float> sorted(wanted, wanted + v);
      std::partial_sort(sorted.begin(), sorted.begin() + 2, sorted.end(), std::greater<>());
      tally_.add_choice(argmax(&logits[t * v], v) == argmax(wanted, v), sorted[0] - sorted[1]);
    }
    return;
  }
  const auto* last = golden.find(prompt.name + ".logits_last4");
  const auto* ids = golden.find(prompt.name + ".top20_ids");
  const auto* tops = golden.find(prompt.name + ".top20_logits");
  ASSERT_TRUE(last && ids && tops);
  tally_.add_row(&logits[(prompt.ids.size() - 4) * v], last->as<float>(), 4 * v);
  for (size_t t = 0; t < prompt.ids.size(); ++t) {
    const int32_t* top_ids = ids->as<int32_t>() + t * 20;
    const float* top = tops->as<float>() + t * 20;
    for (size_t i = 0; i < 20; ++i) {
      tally_.add_row(&logits[t * v + static_cast<size_t>(top_ids[i])], &top[i], 1);
    }
    tally_.add_choice(argmax(&logits[t * v], v) == top_ids[0], double{top[0]} - top[1]);
  }
}

// Feeds the saved greedy ids, so that every step is compared, and keeps the logits after the last.
void GoldenModel::check_decode(Machine& machine,
                               BlockSource& blocks,
                               TestSequence& sequence,
                               const GoldenPrompt& prompt,
                               std::vector<float>& last) {
  for (size_t i = 0; i < prompt.greedy.size(); ++i) {
    const int32_t found = argmax(last.data(), vocabulary_);
    const bool agreed = found == prompt.greedy[i];
    tally_.add_choice(agreed, prompt.gap[i]);
    if (GetParam().activation == DType::kF32 && prompt.gap[i] > kFp32Tie) {
      EXPECT_EQ(found, prompt.greedy[i]) << prompt.name << " step " << i;
    }
    TestBatch batch(blocks);
    batch.add(sequence, {prompt.greedy[i]}, false);
    StepOutput output = run_step(machine, batch);
    ASSERT_EQ(output.result.rows.size(), 1u);
    EXPECT_EQ(output.result.rows[0].id, argmax(output.logits.data(), vocabulary_));
    EXPECT_EQ(output.result.rows[0].invalid, 0);
    last = std::move(output.logits);
  }
}

void GoldenModel::check_prompt(Machine& machine,
                               BlockSource& blocks,
                               const GoldenExpectation& golden,
                               const GoldenPrompt& prompt) {
  SCOPED_TRACE(prompt.name);
  TestSequence sequence;
  sequence.prompt = static_cast<int32_t>(prompt.ids.size());
  sequence.expand_from = GetParam().expand_from;
  std::vector<float> logits;
  // Chunks of odd sizes: their edges fall inside blocks, segments and tiles.
  for (size_t at = 0; at < prompt.ids.size();) {
    const size_t chunk = std::min<size_t>(at == 0 ? 5 : 71, prompt.ids.size() - at);
    TestBatch batch(blocks);
    const auto begin = prompt.ids.begin() + static_cast<std::ptrdiff_t>(at);
    batch.add(sequence, {begin, begin + static_cast<std::ptrdiff_t>(chunk)}, true);
    const StepOutput output = run_step(machine, batch);
    logits.insert(logits.end(), output.logits.begin(), output.logits.end());
    at += chunk;
  }
  ASSERT_NO_FATAL_FAILURE(check_prefill(golden, prompt, logits));
  std::vector<float> last(logits.end() - static_cast<std::ptrdiff_t>(vocabulary_), logits.end());
  ASSERT_NO_FATAL_FAILURE(check_decode(machine, blocks, sequence, prompt, last));
  const auto* wanted = golden.find(prompt.name + ".greedy_logits_last");
  ASSERT_TRUE(wanted);
  tally_.add_row(last.data(), wanted->as<float>(), vocabulary_);
}

TEST_P(GoldenModel, LogitsAndGreedyIds) {
  const auto directory = golden_checkpoint(GetParam().checkpoint);
  if (!directory) GTEST_SKIP() << GetParam().checkpoint << " is not on this machine";
  MachineOptions options;
  options.kind = GetParam().kind;
  options.activation = GetParam().activation;
  auto machine = start_machine(*directory, options);
  ASSERT_TRUE(machine) << machine.error().to_line();
  vocabulary_ = static_cast<size_t>(machine->model->spec().vocabulary);
  const GoldenExpectation golden(*directory);
  BlockSource blocks(options.kv_blocks);
  for (const GoldenPrompt& prompt : golden.prompts()) {
    ASSERT_NO_FATAL_FAILURE(check_prompt(*machine, blocks, golden, prompt));
  }
  const double largest = tally_.quantile(1.0);
  std::printf("[          ] mean %.6f, p99.9 %.5f, max %.6f, clear argmax %d of %d\n",
              tally_.mean(),
              tally_.quantile(0.999),
              largest,
              tally_.clear_agreed,
              tally_.clear_positions);
  if (GetParam().activation == DType::kF32) {
    EXPECT_LE(largest, kFp32Tolerance);
    EXPECT_EQ(tally_.clear_agreed, tally_.clear_positions);
  } else if (GetParam().moe) {
    EXPECT_LE(tally_.mean(), 0.15);
    EXPECT_GE(tally_.clear_agreed, std::ceil(0.95 * tally_.clear_positions));
  } else {
    EXPECT_LE(tally_.mean(), 0.08);
    EXPECT_LE(tally_.quantile(0.999), 0.5);
    EXPECT_EQ(tally_.clear_agreed, tally_.clear_positions);
  }
}

std::vector<GoldenCase> cases() {
  std::vector<GoldenCase> list;
  for (const DeviceKind kind : tested_devices()) {
    for (const DType activation : {DType::kF32, DType::kBF16}) {
      for (const char* name : {"deepseek_v3_fp8",
                               "deepseek_v3_mtp",
                               "deepseek_v3",
                               "deepseek_v31_fp8_ue8m0",
                               "deepseek_v2",
                               "deepseek_v2_lite"}) {
        list.push_back({name, kind, activation});
        list.push_back({name, kind, activation, 64});
      }
      for (const char* name : {"llama_gqa", "llama_mha", "llama_linear_rope", "llama3_rope_tied"}) {
        list.push_back({name, kind, activation, 0, false});
      }
    }
  }
  return list;
}

INSTANTIATE_TEST_SUITE_P(All, GoldenModel, ::testing::ValuesIn(cases()), [](const auto& test) {
  return test.param.name();
});

}  // namespace
}  // namespace tandem::testing
