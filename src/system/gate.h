#pragma once
// A counter that threads wait on: spin a while, give the CPU away a while, then sleep in the kernel
// until someone advances it. Nothing polls by time; a sleeper costs nothing.

#include <atomic>
#include <chrono>
#include <cstdint>

namespace tandem::system {

// How long a wait may burn CPU before it sleeps: first spinning, then yielding between looks.
struct SpinBudget {
  std::chrono::nanoseconds spin{0};
  std::chrono::nanoseconds yield{0};
};

// Any thread. All that a thread wrote before advance() is seen after the wait that it ends.
class Gate {
 public:
  uint32_t value() const { return value_.load(std::memory_order_acquire); }

  // Adds one (wraps around) and wakes all sleepers. No system call if there are none.
  void advance();

  // Returns once value() is not `seen`.
  void wait_past(uint32_t seen, const SpinBudget& budget);

 private:
  bool spin_past(uint32_t seen, const SpinBudget& budget) const;

  // Own cache line: waiters read it while others work.
  alignas(64) std::atomic<uint32_t> value_{0};
  std::atomic<uint32_t> sleepers_{0};
};

}  // namespace tandem::system
