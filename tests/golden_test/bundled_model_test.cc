// The bundled model against Hugging Face's greedy ids (tests/golden/tandem_tiny_expected.json).

#include <gtest/gtest.h>

#include "support/golden.h"
#include "support/model_runner.h"

namespace tandem::testing {
namespace {

using tensor::DType;

struct Case {
  DeviceKind kind;
  DType activation;
};

class BundledModel : public ::testing::TestWithParam<Case> {};

// Compares with the saved ids step by step; returns whether the whole answer was the same. With
// bf16 a difference is allowed where the two best logits were closer than kTie.
bool walk(Machine& machine, BlockSource& blocks, const Json& prompt, bool exact) {
  constexpr double kTie = 0.15;  // issue "done when": margin below which bf16 may leave the path
  const auto ids = prompt.at("prompt_ids").get<std::vector<int32_t>>();
  const auto wanted = prompt.at("output_ids").get<std::vector<int32_t>>();
  const auto margin = prompt.at("margin").get<std::vector<double>>();
  TestSequence sequence;
  sequence.prompt = static_cast<int32_t>(ids.size());
  sequence.expand_from = 512;
  std::vector<int32_t> next;
  for (size_t at = 0; at < ids.size(); at += 200) {
    const size_t end = std::min(ids.size(), at + 200);
    TestBatch batch(blocks);
    batch.add(sequence,
              {ids.begin() + static_cast<std::ptrdiff_t>(at),
               ids.begin() + static_cast<std::ptrdiff_t>(end)},
              false);
    next = {run_step(machine, batch).result.rows.at(0).id};
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (next[0] != wanted[i]) {
      EXPECT_TRUE(!exact && margin[i] < kTie)
          << prompt.at("name") << " step " << i << ": " << next[0] << " instead of " << wanted[i]
          << ", margin " << margin[i];
      return false;
    }
    if (i + 1 == wanted.size()) return true;
    TestBatch batch(blocks);
    batch.add(sequence, next, false);
    next = {run_step(machine, batch).result.rows.at(0).id};
  }
  return true;
}

TEST_P(BundledModel, GreedyIds) {
  const std::string path = TANDEM_SOURCE_DIR "/tests/golden/tandem_tiny_expected.json";
  const auto text = system::read_text_file(path, 16u << 20);
  ASSERT_TRUE(text) << text.error().to_line();
  const Json expected = parse_json(*text).value();
  MachineOptions options;
  options.kind = GetParam().kind;
  options.activation = GetParam().activation;
  options.kv_blocks = 400;
  auto machine = start_machine(TANDEM_SOURCE_DIR "/models/tandem-tiny-v3", options);
  ASSERT_TRUE(machine) << machine.error().to_line();
  int whole = 0;
  int count = 0;
  BlockSource blocks(options.kv_blocks);
  for (const Json& prompt : expected.at("prompts")) {
    whole += walk(*machine, blocks, prompt, options.activation == DType::kF32);
    ++count;
  }
  std::printf("[          ] %d of %d answers are the same\n", whole, count);
  if (options.activation == DType::kF32) {
    EXPECT_EQ(whole, count);
  }
}

std::vector<Case> cases() {
  std::vector<Case> list;
  for (const DeviceKind kind : tested_devices()) {
    list.push_back({kind, DType::kF32});
    list.push_back({kind, DType::kBF16});
  }
  return list;
}

INSTANTIATE_TEST_SUITE_P(All, BundledModel, ::testing::ValuesIn(cases()), [](const auto& test) {
  return std::string(test.param.kind == DeviceKind::kCpu ? "cpu" : "reference") +
         (test.param.activation == DType::kF32 ? "_float32" : "_bfloat16");
});

}  // namespace
}  // namespace tandem::testing
