// Routed experts on a second device, two steps in flight, batches and chunks: the same bits.

#include <gtest/gtest.h>

#include <cstring>

#include "support/golden.h"
#include "support/model_runner.h"

namespace tandem::testing {
namespace {

using tensor::DType;

const char* const kBundled = TANDEM_SOURCE_DIR "/models/tandem-tiny-v3";

std::vector<int32_t> some_ids(int32_t count, int32_t salt) {
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < count; ++i) ids.push_back((i * 7919 + salt * 104729 + 3) % 4096);
  return ids;
}

// Prompt in chunks, then greedy steps by the ids of the step before; all logits rows.
std::vector<float> run_alone(Machine& machine,
                             BlockSource& blocks,
                             const std::vector<int32_t>& prompt,
                             size_t chunk) {
  TestSequence sequence;
  sequence.prompt = static_cast<int32_t>(prompt.size());
  std::vector<float> logits;
  std::vector<int32_t> next;
  for (size_t at = 0; at < prompt.size(); at += chunk) {
    const size_t end = std::min(prompt.size(), at + chunk);
    TestBatch batch(blocks);
    batch.add(sequence,
              {prompt.begin() + static_cast<std::ptrdiff_t>(at),
               prompt.begin() + static_cast<std::ptrdiff_t>(end)},
              true);
    const StepOutput output = run_step(machine, batch);
    logits.insert(logits.end(), output.logits.begin(), output.logits.end());
    if (output.result.rows.empty()) return logits;
    next = {output.result.rows.back().id};
  }
  for (int step = 0; step < 6; ++step) {
    TestBatch batch(blocks);
    batch.add(sequence, next, true);
    const StepOutput output = run_step(machine, batch);
    logits.insert(logits.end(), output.logits.begin(), output.logits.end());
    if (output.result.rows.empty()) return logits;
    next = {output.result.rows.back().id};
  }
  return logits;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class Placement : public ::testing::TestWithParam<std::tuple<DeviceKind, DType>> {
 protected:
  MachineOptions options() const {
    MachineOptions result;
    result.kind = std::get<0>(GetParam());
    result.activation = std::get<1>(GetParam());
    return result;
  }
};

TEST_P(Placement, ExpertsOnASecondDeviceGiveTheSameBits) {
  MachineOptions one = options();
  MachineOptions two = options();
  two.experts_away = true;
  two.threads = 1;
  auto here = start_machine(kBundled, one);
  auto away = start_machine(kBundled, two);
  ASSERT_TRUE(here) << here.error().to_line();
  ASSERT_TRUE(away) << away.error().to_line();
  BlockSource blocks_here(one.kv_blocks);
  BlockSource blocks_away(two.kv_blocks);
  const auto ids = some_ids(75, 1);
  const auto a = run_alone(*here, blocks_here, ids, 40);
  const auto b = run_alone(*away, blocks_away, ids, 40);
  EXPECT_EQ(a.size(), 81u * 4096u);
  EXPECT_TRUE(same_bits(a, b));
}

TEST_P(Placement, ChunksAndCompanyChangeNothing) {
  auto machine = start_machine(kBundled, options());
  ASSERT_TRUE(machine) << machine.error().to_line();
  BlockSource blocks(options().kv_blocks);
  const auto ids = some_ids(70, 2);
  const auto whole = run_alone(*machine, blocks, ids, 70);
  EXPECT_TRUE(same_bits(whole, run_alone(*machine, blocks, ids, 1)));
  EXPECT_TRUE(same_bits(whole, run_alone(*machine, blocks, ids, 33)));

  TestSequence noise;
  TestSequence sequence;
  TestBatch batch(blocks);
  batch.add(noise, some_ids(90, 3), true);
  batch.add(sequence, ids, true);
  const StepOutput output = run_step(*machine, batch);
  ASSERT_EQ(output.logits.size(), 160u * 4096u);
  EXPECT_EQ(
      std::memcmp(
          output.logits.data() + 90u * 4096u, whole.data(), ids.size() * 4096u * sizeof(float)),
      0);
}

// The second step's id is a placeholder that the first is still sampling.
TEST_P(Placement, TwoStepsInFlightGiveTheSameIds) {
  auto machine = start_machine(kBundled, options());
  ASSERT_TRUE(machine) << machine.error().to_line();
  BlockSource blocks(options().kv_blocks);
  std::vector<int32_t> wanted;
  {
    TestSequence sequence;
    std::vector<int32_t> next = some_ids(20, 4);
    for (int step = 0; step < 8; ++step) {
      TestBatch batch(blocks);
      batch.add(sequence, next, false);
      next = {run_step(*machine, batch).result.rows.at(0).id};
      wanted.push_back(next[0]);
    }
  }
  TestSequence sequence;
  std::vector<int32_t> found;
  model::StepResult result;
  for (int step = 0; step < 8; ++step) {
    TestBatch batch(blocks);
    batch.add(sequence, step == 0 ? some_ids(20, 4) : std::vector<int32_t>{~0}, false);
    ASSERT_TRUE(machine->runner->launch(batch.finish()));
    if (machine->runner->in_flight() < machine->runner->depth()) continue;
    ASSERT_TRUE(machine->runner->collect(result));
    found.push_back(result.rows.at(0).id);
  }
  while (machine->runner->in_flight() > 0) {
    ASSERT_TRUE(machine->runner->collect(result));
    found.push_back(result.rows.at(0).id);
  }
  EXPECT_EQ(found, wanted);
}

INSTANTIATE_TEST_SUITE_P(
    All,
    Placement,
    ::testing::Combine(::testing::ValuesIn(tested_devices()),
                       ::testing::Values(DType::kF32, DType::kBF16)),
    [](const auto& test) {
      return std::string(std::get<0>(test.param) == DeviceKind::kCpu ? "cpu" : "reference") +
             (std::get<1>(test.param) == DType::kF32 ? "_float32" : "_bfloat16");
    });

// A device whose experts are refused once, at a chosen call: tables have no context of their own.
struct Breaker {
  const kernels::DeviceApi* real = nullptr;
  kernels::DeviceApi broken;
  int calls_left = -1;
};
Breaker& breaker() {
  static Breaker instance;
  return instance;
}
tensor::Status refuse_once(tensor::Device* device,
                           tensor::Stream* stream,
                           const kernels::ExpertsArgs* args) {
  if (breaker().calls_left-- == 0) {
    return tensor::to_status(Error{ErrorCode::kInternal, "refused by the test"});
  }
  return breaker().real->experts(device, stream, args);
}

TEST(StepRunner, GoesOnAfterARefusedSubmission) {
  for (const bool away : {false, true}) {
    for (const int call : {0, 2}) {
      MachineOptions options;
      options.experts_away = away;
      options.adapt = [](std::vector<kernels::DeviceRef>& refs) {
        breaker().real = refs.back().api;
        breaker().broken = *refs.back().api;
        breaker().broken.experts = refuse_once;
        refs.back().api = &breaker().broken;
      };
      breaker().calls_left = -1;
      auto machine = start_machine(kBundled, options);
      ASSERT_TRUE(machine) << machine.error().to_line();
      BlockSource blocks(options.kv_blocks);
      const auto run = [&] {
        TestSequence sequence;
        TestBatch batch(blocks);
        batch.add(sequence, {1, 2, 3}, true);
        return run_step(*machine, batch).logits;
      };
      const auto before = run();
      breaker().calls_left = call;
      TestSequence sequence;
      TestBatch batch(blocks);
      batch.add(sequence, {1, 2, 3}, true);
      const auto launched = machine->runner->launch(batch.finish());
      ASSERT_FALSE(launched);
      EXPECT_EQ(launched.error().message, "refused by the test");
      EXPECT_EQ(machine->runner->in_flight(), 0);
      EXPECT_TRUE(same_bits(before, run()));
    }
  }
}

TEST(StepRunner, RefusesBatchesThatContradictThemselves) {
  auto machine = start_machine(kBundled, {});
  ASSERT_TRUE(machine) << machine.error().to_line();
  const auto refused = [&](auto change) {
    BlockSource blocks(4);
    TestSequence sequence;
    TestBatch good(blocks);
    good.add(sequence, {1, 2, 3}, false);
    model::Batch batch = good.finish();
    change(batch);
    const auto launched = machine->runner->launch(batch);
    EXPECT_FALSE(launched);
    if (!launched) {
      EXPECT_EQ(launched.error().code, ErrorCode::kInvalidArgument);
    }
    EXPECT_EQ(machine->runner->in_flight(), 0);
  };
  refused([](model::Batch& b) { b.clear(); });
  refused([](model::Batch& b) { b.token_ids[1] = 4096; });
  refused([](model::Batch& b) { b.token_ids[1] = -1; });
  refused([](model::Batch& b) { b.positions[1] = 5; });
  refused([](model::Batch& b) { b.segments[0].rows = 2; });
  refused([](model::Batch& b) { b.groups[0].slots[0] = int64_t{24} * 64; });
  refused([](model::Batch& b) { b.groups[0].block_table[0] = 24; });
  refused([](model::Batch& b) { b.groups[0].block_table.clear(); });
  refused([](model::Batch& b) { b.logits_rows[0] = 3; });
  refused([](model::Batch& b) { b.sample_rows[0].history_count = 1; });
  refused([](model::Batch& b) { b.sample_rows[0].mask_row = 0; });
}

}  // namespace
}  // namespace tandem::testing
