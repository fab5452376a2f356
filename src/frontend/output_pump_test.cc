#include "frontend/output_pump.h"

#include <gtest/gtest.h>

#include <atomic>

namespace tandem::frontend {
namespace {

struct CountingTask : PumpTask {
  explicit CountingTask(std::atomic<int>& c) : calls(c) {}
  bool drain() override { return calls.fetch_add(1) % 3 != 2; }
  std::atomic<int>& calls;
};

TEST(OutputPump, DrainsUntilNothingIsLeftAndBeforeItEnds) {
  std::atomic<int> calls{0};
  {
    OutputPump pump(2);
    for (int i = 0; i < 100; ++i) {
      pump.post(std::make_shared<CountingTask>(calls));
    }
  }
  // Each task goes on until its call number is 2 modulo 3, so the last calls of all tasks are.
  EXPECT_GE(calls.load(), 100);
}

}  // namespace
}  // namespace tandem::frontend
