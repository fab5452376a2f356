#include "system/gate.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

namespace tandem::system {

namespace {

// Looks between two readings of the clock, which cost more than a look.
constexpr int kLooksPerClock = 32;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  // `yield` is a no-op on cores without SMT; the barrier really holds the pipeline back.
  __asm__ volatile("isb" : : : "memory");
#endif
}

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));

void futex_wait(const std::atomic<uint32_t>& word, uint32_t expected) {
  // Every way to return (woken, changed already, signal) leads to another look by the caller.
  ::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

void futex_wake_all(const std::atomic<uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

void Gate::advance() {
  // Sequentially consistent on both sides: either this thread sees the sleeper, or the sleeper sees
  // the new value (and FUTEX_WAIT compares once more).
  value_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) != 0) futex_wake_all(value_);
}

bool Gate::spin_past(uint32_t seen, const SpinBudget& budget) const {
  using SteadyTime = std::chrono::steady_clock;
  const auto start = SteadyTime::now();
  for (;;) {
    for (int i = 0; i < kLooksPerClock; ++i) {
      if (value() != seen) return true;
      relax();
    }
    if (SteadyTime::now() - start >= budget.spin) break;
  }
  while (SteadyTime::now() - start < budget.spin + budget.yield) {
    ::sched_yield();
    if (value() != seen) return true;
  }
  return false;
}

void Gate::wait_past(uint32_t seen, const SpinBudget& budget) {
  if (value() != seen || spin_past(seen, budget)) return;
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  while (value_.load(std::memory_order_seq_cst) == seen) futex_wait(value_, seen);
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace tandem::system
