#include "model/host_tier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "kernels/host/host_memory.h"
#include "kernels/host/host_stream.h"
#include "model/model_spec.h"

namespace tandem::model {
namespace {

constexpr int64_t kBlocks = 4;
constexpr int64_t kHostBlocks = 3;

// Two layers of different width: a block is contiguous over both.
ModelSpec two_layers() {
  ModelSpec spec;
  for (const int32_t heads : {1, 2}) {
    LayerSpec layer;
    layer.attention.kv_heads = heads;
    layer.attention.head_dim = 4;
    spec.layers.push_back(layer);
  }
  return spec;
}

// A table without state takes its faults from here: copies that are refused, copies that fail
// later.
struct Faults {
  std::atomic<int> refused{0};
  std::atomic<int> broken{0};
};
Faults& faults() {
  static Faults instance;
  return instance;
}

bool take(std::atomic<int>& count) {
  if (count.load() == 0) return false;
  --count;
  return true;
}

tensor::Status faulty_copy(tensor::Device* device,
                           tensor::Stream* stream,
                           void* destination,
                           const void* source,
                           size_t bytes) {
  if (take(faults().refused)) {
    return kernels::make_status(ErrorCode::kInternal, "refused as asked");
  }
  if (take(faults().broken)) {
    kernels::host_stream(stream).submit_transfer(
        [](kernels::RunContext& context, const void*) {
          context.fail(ErrorCode::kInternal, "broken as asked");
        },
        nullptr,
        0);
    return {};
  }
  return kernels::host_memory::copy(device, stream, destination, source, bytes);
}

class HostTierTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto device = kernels::open_reference_device(tensor::DType::kF32);
    ASSERT_TRUE(device);
    device_ = std::move(*device);
    api_ = *device_.ref().api;
    api_.memory.copy = &faulty_copy;
    ref_ = {&api_, device_.ref().device};
    auto pool = KvPool::create(ref_, two_layers(), kBlocks, tensor::DType::kF32);
    ASSERT_TRUE(pool);
    pool_ = std::move(*pool);
    auto stream = weights::OwnedStream::create(ref_);
    ASSERT_TRUE(stream);
    steps_ = std::move(*stream);
    auto tier = HostTier::create(ref_, pool_, kHostBlocks);
    ASSERT_TRUE(tier) << tier.error().to_line();
    tier_ = std::move(*tier);
  }

  void fill(int32_t block, int value) {
    std::memset(pool_.block(block), value, static_cast<size_t>(pool_.block_bytes()));
  }
  bool holds(int32_t block, int value) const {
    const std::byte* begin = pool_.block(block);
    return std::all_of(begin, begin + pool_.block_bytes(), [value](std::byte b) {
      return std::to_integer<int>(b) == value;
    });
  }
  std::vector<TransferReport> wait(size_t count) {
    std::vector<TransferReport> reports;
    while (reports.size() < count) tier_->finished(/*wait=*/true, reports);
    return reports;
  }

  kernels::OwnedDevice device_;
  kernels::DeviceApi api_;
  kernels::DeviceRef ref_;
  KvPool pool_;
  weights::OwnedStream steps_;
  std::unique_ptr<HostTier> tier_;
};

TEST_F(HostTierTest, BlocksGoAndComeBack) {
  for (int32_t b = 0; b < kBlocks; ++b) fill(b, 10 + b);
  ASSERT_TRUE(tier_->start(steps_.get(), {1, true, {{0, 2}, {3, 0}}}));
  ASSERT_TRUE(tier_->start(steps_.get(), {2, false, {{2, 1}, {0, 2}}}));
  const auto reports = wait(2);
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(reports[0].id, 1);
  EXPECT_EQ(reports[1].id, 2);
  EXPECT_TRUE(reports[0].ok && reports[1].ok);
  EXPECT_TRUE(holds(0, 10) && holds(1, 10) && holds(2, 13) && holds(3, 13));
}

TEST_F(HostTierTest, WaitsForWhatTheStepsHaveBefore) {
  struct Step {
    system::Gate gate;
    KvPool* pool;
  } step{{}, &pool_};
  fill(0, 1);
  ASSERT_TRUE(tensor::ok(api_.memory.launch_host(
      ref_.device,
      steps_.get(),
      [](void* argument) {
        auto* s = static_cast<Step*>(argument);
        s->gate.wait_past(0, {});
        std::memset(s->pool->block(0), 2, static_cast<size_t>(s->pool->block_bytes()));
      },
      &step)));
  ASSERT_TRUE(tier_->start(steps_.get(), {1, true, {{0, 0}}}));
  // Time enough to go wrong.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::vector<TransferReport> reports;
  tier_->finished(/*wait=*/false, reports);
  EXPECT_TRUE(reports.empty());
  step.gate.advance();
  EXPECT_TRUE(wait(1)[0].ok);
  ASSERT_TRUE(tier_->start(steps_.get(), {2, false, {{0, 1}}}));
  EXPECT_TRUE(wait(1)[0].ok);
  EXPECT_TRUE(holds(1, 2));
}

TEST_F(HostTierTest, OneThatFailsTakesNoOtherAlong) {
  fill(0, 7);
  for (std::atomic<int>* fault : {&faults().refused, &faults().broken}) {
    *fault = 1;
    ASSERT_TRUE(tier_->start(steps_.get(), {1, true, {{1, 1}, {0, 0}}}));
    ASSERT_TRUE(tier_->start(steps_.get(), {2, true, {{0, 0}}}));
    ASSERT_TRUE(tier_->start(steps_.get(), {3, false, {{0, 2}}}));
    const auto reports = wait(3);
    EXPECT_FALSE(reports[0].ok);
    EXPECT_TRUE(reports[1].ok && reports[2].ok);
    EXPECT_TRUE(holds(2, 7));
    fill(2, 0);
  }
}

TEST_F(HostTierTest, RefusesBlocksOutsideThePools) {
  for (const BlockCopy copy : {BlockCopy{-1, 0}, {kBlocks, 0}, {0, -1}, {0, kHostBlocks}}) {
    EXPECT_FALSE(tier_->start(steps_.get(), {1, true, {copy}}));
    EXPECT_FALSE(tier_->start(steps_.get(), {1, false, {{copy.target, copy.source}}}));
  }
  std::vector<TransferReport> reports;
  tier_->finished(/*wait=*/true, reports);  // nothing is under way: does not sleep
  EXPECT_TRUE(reports.empty());
  EXPECT_FALSE(HostTier::create(ref_, pool_, 0));
  EXPECT_FALSE(HostTier::create(ref_, pool_, INT64_MAX));
}

TEST_F(HostTierTest, AnIdleStreamIsNotWaitedFor) {
  // A broken device that takes host functions and never runs them.
  api_.memory.launch_host = [](tensor::Device*, tensor::Stream*, void (*)(void*), void*) {
    return tensor::Status{};
  };
  ASSERT_TRUE(tier_->start(steps_.get(), {1, true, {{0, 0}}}));
  ASSERT_TRUE(tier_->start(steps_.get(), {2, true, {{0, 1}}}));
  tier_->steps_idle();
  wait(2);
  // Nobody waits for this one, and the tier can go all the same.
  ASSERT_TRUE(tier_->start(steps_.get(), {3, true, {{0, 0}}}));
}

TEST_F(HostTierTest, CopiesWithinThePool) {
  for (int32_t b = 0; b < kBlocks; ++b) fill(b, b);
  ASSERT_TRUE(pool_.copy_blocks(steps_.get(), std::vector<BlockCopy>{{3, 0}, {0, 2}}));
  ASSERT_TRUE(tensor::ok(api_.memory.synchronize(ref_.device, steps_.get())));
  EXPECT_TRUE(holds(0, 3) && holds(1, 1) && holds(2, 3) && holds(3, 3));
  for (const BlockCopy copy : {BlockCopy{-1, 0}, {0, kBlocks}, {1, 1}}) {
    EXPECT_FALSE(pool_.copy_blocks(steps_.get(), std::vector<BlockCopy>{{2, 1}, copy}));
  }
  ASSERT_TRUE(tensor::ok(api_.memory.synchronize(ref_.device, steps_.get())));
  EXPECT_TRUE(holds(1, 1));
}

}  // namespace
}  // namespace tandem::model
