#pragma once
// A fixed group of threads that work on one thing together. An object like any other: who needs
// threads owns a team and passes it on; several teams may live side by side.

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "system/cgroup.h"
#include "system/cpu_set.h"
#include "system/function_ref.h"
#include "system/gate.h"

namespace tandem::system {

// kAuto: one CPU for each member if should_pin() says so; else, if `cpus` is a part of the mask (a
// NUMA node), the workers may run anywhere in that part. kOff never touches affinity.
enum class PinMode { kAuto, kOn, kOff };

struct ThreadTeamOptions {
  int thread_count = 1;  // the calling thread of run() included; 1..kMaxThreads
  CpuSet cpus = {};      // where to run; empty: the process's affinity mask
  PinMode pin = PinMode::kAuto;
  std::string name = "team";  // shown by ps and top; cut to 10 bytes, a number follows
};

// The rule of kAuto. Pinning helps only where nobody else is put on our CPUs and the scheduler has
// nothing better to choose: all of `cpus` is in the mask, no quota makes us share them over time,
// there are at least 8, and each member gets its own.
bool should_pin(const CpuSet& cpus,
                const CpuSet& mask,
                const CgroupLimits& limits,
                int thread_count);

// [begin, end)
struct TaskRange {
  int64_t begin = 0;
  int64_t end = 0;
};

// Hands out the multiples of `grain` in [0, count) to whoever asks next. The ranges depend on count
// and grain alone, never on the number of threads; only who gets which does. Any thread.
class TaskCounter {
 public:
  // count in [0, 2^62], grain in [1, 2^32].
  TaskCounter(int64_t count, int64_t grain);

  // Empty when all are given out.
  std::optional<TaskRange> next();

  // Starts over. No thread may be in next(); a barrier() or the end of a run() lies between.
  void reset(int64_t count, int64_t grain);

 private:
  alignas(64) std::atomic<int64_t> next_{0};
  int64_t count_ = 0;
  int64_t grain_ = 1;
};

// Threads: run(), parallel_for() and destruction from one thread at a time, not from inside a run.
// barrier() only inside run(), by every member the same number of times.
// An exception that leaves a function given here ends the program (std::terminate).
// Every member computes in FloatEnvironment.
// Idle workers spin for at most 0.2 ms after the last run, then sleep in the kernel.
class ThreadTeam {
 public:
  static constexpr int kMaxThreads = CpuSet::kMaxCpus;

  using MemberFunction = FunctionRef<void(int member, int count)>;
  using RangeFunction = FunctionRef<void(int64_t begin, int64_t end, int member)>;

  // Errors: kInvalidArgument for the options; kIo/kUnavailable when threads or bindings are
  // refused.
  static Expected<std::unique_ptr<ThreadTeam>> create(ThreadTeamOptions options);
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;
  ~ThreadTeam();  // joins

  int size() const { return size_; }
  const CpuSet& cpus() const { return cpus_; }
  bool pinned() const { return pinned_; }
  // More members than CPUs we may use (mask, quota): waits give the CPU away almost at once.
  bool oversubscribed() const { return oversubscribed_; }

  // Binds the caller to member 0's place, if the team binds at all. For the thread that owns the
  // team and calls run(); the team does not do it unasked, since the thread has other work.
  Expected<void> bind_calling_thread() const;

  // Calls function(member, size()) on every member, on the caller as member 0; returns when all are
  // done. Allocates nothing. What the caller wrote before is seen by members, and their writes by
  // the caller after.
  void run(MemberFunction function);

  // Returns when every member has arrived. Writes before it are seen by all after it.
  void barrier();

  // function(begin, end, member) for each range of TaskCounter(count, grain), shared out by
  // stealing.
  void parallel_for(int64_t count, int64_t grain, RangeFunction function);

 private:
  explicit ThreadTeam(const ThreadTeamOptions& options);

  Expected<void> start_workers(const std::string& name);
  CpuSet place_of(int member) const;
  void execute(MemberFunction function, bool alone);
  void work(int member);
  void call(int member) noexcept;

  const int size_;
  CpuSet cpus_;
  bool pinned_ = false;
  bool restricted_ = false;  // members are bound to cpus_ as a whole
  bool oversubscribed_ = false;
  SpinBudget busy_budget_;  // for waits on members that are at work

  const MemberFunction* function_ = nullptr;  // valid during run()
  bool stopping_ = false;                     // written before the last advance of start_
  std::atomic<bool> running_{false};
  Gate start_;  // one step for each run
  alignas(64) std::atomic<int> unfinished_{0};
  Gate finish_;
  alignas(64) std::atomic<int> arrived_{0};
  Gate barrier_;

  std::vector<std::thread> workers_;  // members 1..size_-1
};

}  // namespace tandem::system
