#include "kernels/host/host_stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <limits>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "kernels/operator_test_util.h"

namespace tandem::kernels {
namespace {

using namespace std::chrono_literals;

struct AppendArgs {
  std::vector<int>* log;
  int value;
};
void run_append(RunContext& context, const AppendArgs& args) {
  if (args.value < 0) return context.fail(ErrorCode::kInternal, "value {}", args.value);
  args.log->push_back(args.value);
}

struct GateArgs {
  std::atomic<bool>* open;
};
void run_gate(RunContext&, const GateArgs& args) { args.open->wait(false); }

struct Nothing {};
void run_without_memory(RunContext& context, const Nothing&) {
  context.scratch<char>(std::numeric_limits<size_t>::max());
}
void run_throw(RunContext&, const Nothing&) { throw std::runtime_error("odd"); }

struct PlaceArgs {
  void** first;
};
void run_take_scratch(RunContext& context, const PlaceArgs& args) {
  auto* a = context.scratch<float>(100);
  auto* b = context.scratch<float>(200000);
  std::fill_n(a, 100, 1.0f);
  std::fill_n(b, 200000, 2.0f);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b) % 64, 0u);
  *args.first = a;
}

struct InsideArgs {
  int* inside;
  std::atomic<int>* overlaps;
};
void run_inside(RunContext&, const InsideArgs& args) {
  if (++*args.inside != 1) ++*args.overlaps;
  std::this_thread::yield();
  --*args.inside;
}

class HostStreamTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(tensor::ok(HostStream::create(device_, &stream_)));
    ASSERT_TRUE(tensor::ok(HostStream::create(device_, &other_)));
  }
  void append(int value) { submit<AppendArgs, &run_append>(*stream_, {&log_, value}); }

  HostDevice device_;
  std::vector<int> log_;
  std::unique_ptr<HostStream> stream_;
  std::unique_ptr<HostStream> other_;
};

TEST_F(HostStreamTest, RunsInOrderThroughAFullRing) {
  std::atomic<bool> open{false};
  submit<GateArgs, &run_gate>(*stream_, {&open});
  std::thread opener([&] {
    std::this_thread::sleep_for(20ms);
    open = true;
    open.notify_all();
  });
  constexpr int kCount = 3 * static_cast<int>(HostStream::kRingCommands);
  for (int i = 0; i < kCount; ++i) append(i);
  EXPECT_TRUE(tensor::ok(stream_->synchronize()));
  opener.join();
  ASSERT_EQ(log_.size(), static_cast<size_t>(kCount));
  for (int i = 0; i < kCount; ++i) ASSERT_EQ(log_[static_cast<size_t>(i)], i);
}

TEST_F(HostStreamTest, DestructionRunsWhatWasSubmitted) {
  for (int i = 0; i < 100; ++i) append(i);
  stream_.reset();
  EXPECT_EQ(log_.size(), 100u);
}

TEST_F(HostStreamTest, FailureStaysUntilSynchronize) {
  append(1);
  append(-7);
  append(2);
  append(-8);
  const Status status = stream_->synchronize();
  EXPECT_EQ(status.code, static_cast<int32_t>(ErrorCode::kInternal) + 1);
  EXPECT_STREQ(status.message, "value -7");
  EXPECT_EQ(log_, std::vector<int>({1}));
  append(3);
  EXPECT_TRUE(tensor::ok(stream_->synchronize()));
  EXPECT_EQ(log_, std::vector<int>({1, 3}));
}

TEST_F(HostStreamTest, EventReportsTheFailureBeforeItAndNoOther) {
  HostEvent before;
  HostEvent after;
  append(1);
  stream_->submit_record(before);
  append(-7);
  stream_->submit_record(after);
  EXPECT_TRUE(tensor::ok(before.wait()));
  EXPECT_FALSE(tensor::ok(after.wait()));
  EXPECT_FALSE(tensor::ok(after.wait()));
  append(2);
  EXPECT_TRUE(tensor::ok(stream_->synchronize()));
  EXPECT_EQ(log_, std::vector<int>({1, 2}));
}

// Two steps in flight: the second was submitted before the first one's failure was known, so none
// of it may run, not even what comes after the moment when the host learns of it.
TEST_F(HostStreamTest, WorkSubmittedBeforeTheFailureWasSeenIsSkipped) {
  std::atomic<bool> open{false};
  HostEvent first;
  HostEvent second;
  append(-7);
  stream_->submit_record(first);
  append(1);
  stream_->submit_host(
      [](void* argument) { static_cast<std::atomic<bool>*>(argument)->wait(false); }, &open);
  append(2);
  stream_->submit_record(second);
  EXPECT_FALSE(tensor::ok(first.wait()));
  open = true;
  open.notify_all();
  EXPECT_FALSE(tensor::ok(second.wait()));
  append(3);
  EXPECT_TRUE(second.query());
  stream_->submit_record(second);
  EXPECT_TRUE(tensor::ok(second.wait()));
  EXPECT_EQ(log_, std::vector<int>({3}));
}

TEST_F(HostStreamTest, EventsWithoutRecordAreReached) {
  HostEvent event;
  EXPECT_TRUE(event.query());
  EXPECT_TRUE(tensor::ok(event.wait()));
}

TEST_F(HostStreamTest, EventIsReachedOnlyWhenTheStreamGetsThere) {
  std::atomic<bool> open{false};
  HostEvent event;
  submit<GateArgs, &run_gate>(*stream_, {&open});
  stream_->submit_record(event);
  EXPECT_FALSE(event.query());
  open = true;
  open.notify_all();
  EXPECT_TRUE(tensor::ok(event.wait()));
  EXPECT_TRUE(event.query());
}

TEST_F(HostStreamTest, ExceptionsAndLackOfMemoryBecomeFailures) {
  submit<Nothing, &run_without_memory>(*stream_, {});
  EXPECT_EQ(stream_->synchronize().code, static_cast<int32_t>(ErrorCode::kOutOfMemory) + 1);
  submit<Nothing, &run_throw>(*stream_, {});
  EXPECT_EQ(stream_->synchronize().code, static_cast<int32_t>(ErrorCode::kInternal) + 1);
}

TEST_F(HostStreamTest, ScratchIsKeptAndAligned) {
  void* places[4] = {};
  for (void*& place : places) submit<PlaceArgs, &run_take_scratch>(*stream_, {&place});
  EXPECT_TRUE(tensor::ok(stream_->synchronize()));
  // Grown while the first ran, made one before the second, at rest from then on.
  EXPECT_EQ(places[1], places[2]);
  EXPECT_EQ(places[1], places[3]);
}

// The team belongs to one operator at a time, over all streams of the device.
TEST_F(HostStreamTest, OperatorsOfTwoStreamsDoNotOverlap) {
  int inside = 0;
  std::atomic<int> overlaps{0};
  for (int i = 0; i < 500; ++i) {
    submit<InsideArgs, &run_inside>(*stream_, {&inside, &overlaps});
    submit<InsideArgs, &run_inside>(*other_, {&inside, &overlaps});
  }
  EXPECT_TRUE(tensor::ok(stream_->synchronize()));
  EXPECT_TRUE(tensor::ok(other_->synchronize()));
  EXPECT_EQ(overlaps, 0);
}

TEST_F(HostStreamTest, ManyThreadsWaitForOneEvent) {
  for (int round = 0; round < 50; ++round) {
    auto event = std::make_unique<HostEvent>();
    append(round);
    stream_->submit_record(*event);
    std::vector<std::thread> waiters;
    for (int i = 0; i < 3; ++i) {
      waiters.emplace_back([&] { EXPECT_TRUE(tensor::ok(event->wait())); });
    }
    for (std::thread& waiter : waiters) waiter.join();
    event.reset();
  }
}

// The stated way for two devices to wait for each other: host functions that signal and wait.
TEST(HostDevicesTest, TwoDevicesPassABallThroughHostFunctions) {
  testing::TestDevice a(open_reference_device(DType::kF32));
  testing::TestDevice b(open_reference_device(DType::kF32));
  struct Turn {
    std::atomic<int>* turn;
    int value;
  };
  constexpr auto wait_for = [](void* argument) {
    const auto& t = *static_cast<Turn*>(argument);
    for (int now = t.turn->load(); now < t.value; now = t.turn->load()) t.turn->wait(now);
  };
  constexpr auto signal = [](void* argument) {
    const auto& t = *static_cast<Turn*>(argument);
    t.turn->store(t.value);
    t.turn->notify_all();
  };
  constexpr int kRounds = 200;
  std::atomic<int> a_turn{0};
  std::atomic<int> b_turn{0};
  std::vector<Turn> turns;
  turns.reserve(2 * kRounds + 2);
  auto* ball_a = static_cast<int*>(a.allocate(64));
  auto* ball_b = static_cast<int*>(b.allocate(64));
  *ball_a = 41;
  *ball_b = 0;
  const auto launch = [](testing::TestDevice& device, void (*function)(void*), Turn* turn) {
    EXPECT_TRUE(
        tensor::ok(device.memory().launch_host(device.handle(), device.stream(), function, turn)));
  };
  for (int i = 1; i <= kRounds; ++i) {
    Turn* a_done = &turns.emplace_back(Turn{&a_turn, i});
    Turn* b_done = &turns.emplace_back(Turn{&b_turn, i});
    a.memory().copy(a.handle(), a.stream(), ball_b, ball_a, sizeof(int));
    launch(a, signal, a_done);
    launch(a, wait_for, b_done);
    launch(b, wait_for, a_done);
    b.memory().fill_zero(b.handle(), b.stream(), ball_a, sizeof(int));
    b.memory().copy(b.handle(), b.stream(), ball_a, ball_b, sizeof(int));
    launch(b, signal, b_done);
  }
  EXPECT_TRUE(tensor::ok(a.memory().synchronize(a.handle(), a.stream())));
  EXPECT_TRUE(tensor::ok(b.memory().synchronize(b.handle(), b.stream())));
  EXPECT_EQ(*ball_a, 41);
}

TEST(HostDevicesTest, MemorySmallLargeAndImpossible) {
  testing::TestDevice device(open_reference_device(DType::kF32));
  for (const size_t bytes : {size_t{1}, size_t{4096}, size_t{3} << 20}) {
    const tensor::AllocationRequest request{bytes};
    void* data = nullptr;
    ASSERT_TRUE(tensor::ok(device.memory().allocate(device.handle(), &request, &data)));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 64, 0u);
    std::memset(data, 1, bytes);
    device.memory().free(device.handle(), data, bytes, tensor::MemoryKind::kDevice);
  }
  for (const size_t bytes : {size_t{0}, size_t{1} << 60, std::numeric_limits<size_t>::max()}) {
    const tensor::AllocationRequest request{bytes};
    void* data = &device;
    EXPECT_FALSE(tensor::ok(device.memory().allocate(device.handle(), &request, &data)));
    EXPECT_EQ(data, nullptr);
  }
}

}  // namespace
}  // namespace tandem::kernels
