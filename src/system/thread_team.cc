#include "system/thread_team.h"

#include <fmt/core.h>
#include <pthread.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "system/affinity.h"
#include "system/float_environment.h"

namespace tandem::system {

namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;
using SteadyTime = std::chrono::steady_clock;

constexpr int kMinCpusToPin = 8;

// Waits on members that are working. Phases inside a layer last tens of microseconds; a wake-up
// from the kernel costs 5 to 50.
constexpr SpinBudget kBusyBudget = {.spin = microseconds(50), .yield = microseconds(500)};
// The one waited for may need this very CPU.
constexpr SpinBudget kBusyBudgetOversubscribed = {.spin = nanoseconds(0),
                                                  .yield = microseconds(50)};

constexpr nanoseconds kIdleMax = microseconds(200);
constexpr nanoseconds kIdleMin = microseconds(2);
constexpr nanoseconds kIdleSpin = microseconds(20);

// How long a worker looks out for the next run before it sleeps: a little longer than the last gap
// if that was short; less and less while gaps are long, where looking out would be for nothing.
class IdleBudget {
 public:
  explicit IdleBudget(bool oversubscribed)
      : max_(oversubscribed ? kIdleMin * 5 : kIdleMax),
        spin_(oversubscribed ? nanoseconds(0) : kIdleSpin),
        budget_(max_) {}

  SpinBudget get() const {
    const nanoseconds spin = std::min(budget_, spin_);
    return {.spin = spin, .yield = budget_ - spin};
  }

  void observe(nanoseconds gap) {
    budget_ = gap <= max_ ? std::min(max_, gap * 2 + kIdleMin) : std::max(kIdleMin, budget_ / 2);
  }

 private:
  nanoseconds max_;
  nanoseconds spin_;
  nanoseconds budget_;
};

}  // namespace

bool should_pin(const CpuSet& cpus,
                const CpuSet& mask,
                const CgroupLimits& limits,
                int thread_count) {
  return cpus.size() >= kMinCpusToPin && mask.contains(cpus) && thread_count <= cpus.size() &&
         usable_threads(mask, limits) == mask.size();
}

TaskCounter::TaskCounter(int64_t count, int64_t grain) { reset(count, grain); }

void TaskCounter::reset(int64_t count, int64_t grain) {
  TANDEM_CHECK(count >= 0 && count <= int64_t{1} << 62);
  TANDEM_CHECK(grain >= 1 && grain <= int64_t{1} << 32);
  count_ = count;
  grain_ = grain;
  next_.store(0, std::memory_order_relaxed);
}

std::optional<TaskRange> TaskCounter::next() {
  // The look before the addition bounds the overshoot to one grain a thread, however often asked.
  if (next_.load(std::memory_order_relaxed) >= count_) return std::nullopt;
  const int64_t begin = next_.fetch_add(grain_, std::memory_order_relaxed);
  if (begin >= count_) return std::nullopt;
  return TaskRange{.begin = begin, .end = std::min(count_, begin + grain_)};
}

Expected<std::unique_ptr<ThreadTeam>> ThreadTeam::create(ThreadTeamOptions options) {
  if (options.thread_count < 1 || options.thread_count > kMaxThreads) {
    return fail(ErrorCode::kInvalidArgument,
                "a thread team has 1 to {} threads, not {}",
                kMaxThreads,
                options.thread_count);
  }
  const CpuSet mask = affinity_cpus();
  if (options.cpus.empty()) options.cpus = mask;
  if (options.pin == PinMode::kOn && options.thread_count > options.cpus.size()) {
    return fail(ErrorCode::kInvalidArgument,
                "{} threads cannot be pinned to the {} CPUs {}",
                options.thread_count,
                options.cpus.size(),
                options.cpus.to_string());
  }
  if (options.pin != PinMode::kOff && !mask.contains(options.cpus)) {
    return fail(ErrorCode::kInvalidArgument,
                "CPUs {} are not all among those allowed to this process, {}",
                options.cpus.to_string(),
                mask.to_string());
  }
  std::unique_ptr<ThreadTeam> team(new ThreadTeam(options));
  const CgroupLimits limits = read_cgroup_limits();
  team->pinned_ =
      options.pin == PinMode::kOn || (options.pin == PinMode::kAuto &&
                                      should_pin(options.cpus, mask, limits, options.thread_count));
  team->restricted_ = options.pin == PinMode::kAuto && !team->pinned_ && options.cpus != mask;
  const CpuSet reachable = options.pin == PinMode::kOff ? mask : options.cpus;
  team->oversubscribed_ = options.thread_count > usable_threads(reachable, limits);
  team->busy_budget_ = team->oversubscribed_ ? kBusyBudgetOversubscribed : kBusyBudget;
  TANDEM_TRY(team->start_workers(options.name));
  return team;
}

ThreadTeam::ThreadTeam(const ThreadTeamOptions& options)
    : size_(options.thread_count), cpus_(options.cpus) {}

CpuSet ThreadTeam::place_of(int member) const {
  if (pinned_) return CpuSet({cpus_.cpus()[static_cast<size_t>(member)]});
  return restricted_ ? cpus_ : CpuSet();
}

Expected<void> ThreadTeam::start_workers(const std::string& name) {
  workers_.reserve(static_cast<size_t>(size_ - 1));
  for (int member = 1; member < size_; ++member) {
    try {
      workers_.emplace_back([this, member] { work(member); });
    } catch (const std::system_error& error) {
      return fail(ErrorCode::kUnavailable,
                  "thread {} of {} could not be started: {}",
                  member + 1,
                  size_,
                  error.what());
    }
    const pthread_t handle = workers_.back().native_handle();
    // 15 bytes are all that Linux keeps; a refusal would not matter.
    ::pthread_setname_np(handle, fmt::format("{}-{}", name.substr(0, 10), member).c_str());
    const CpuSet place = place_of(member);
    if (!place.empty()) TANDEM_TRY(bind_thread(handle, place));
  }
  return {};
}

ThreadTeam::~ThreadTeam() {
  TANDEM_CHECK(!running_.load(), "a team ends inside its own run()");
  stopping_ = true;
  start_.advance();
  for (std::thread& worker : workers_) worker.join();
}

Expected<void> ThreadTeam::bind_calling_thread() const {
  const CpuSet place = place_of(0);
  if (place.empty()) return {};
  return bind_thread(::pthread_self(), place);
}

void ThreadTeam::call(int member) noexcept { (*function_)(member, size_); }

void ThreadTeam::work(int member) {
  const FloatEnvironment environment;
  IdleBudget idle(oversubscribed_);
  uint32_t seen = 0;  // start_ begins at 0 and waits for all before its next step
  for (;;) {
    const auto idle_since = SteadyTime::now();
    start_.wait_past(seen, idle.get());
    idle.observe(SteadyTime::now() - idle_since);
    ++seen;
    if (stopping_) return;
    call(member);
    if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) finish_.advance();
  }
}

void ThreadTeam::run(MemberFunction function) { execute(function, size_ == 1); }

void ThreadTeam::execute(MemberFunction function, bool alone) {
  TANDEM_CHECK(!running_.exchange(true, std::memory_order_acquire),
               "run() inside run() or from two threads at once");
  {
    const FloatEnvironment environment;
    function_ = &function;
    if (alone) {
      call(0);
    } else {
      unfinished_.store(size_ - 1, std::memory_order_relaxed);
      const uint32_t finished = finish_.value();
      start_.advance();
      call(0);
      finish_.wait_past(finished, busy_budget_);
    }
    function_ = nullptr;
  }
  running_.store(false, std::memory_order_release);
}

void ThreadTeam::barrier() {
  if (size_ == 1) return;
  // Cannot move before this member has arrived.
  const uint32_t phase = barrier_.value();
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) == size_ - 1) {
    arrived_.store(0, std::memory_order_relaxed);
    barrier_.advance();
  } else {
    barrier_.wait_past(phase, busy_budget_);
  }
}

void ThreadTeam::parallel_for(int64_t count, int64_t grain, RangeFunction function) {
  TaskCounter tasks(count, grain);
  const auto take_all = [&](int member, int) {
    while (const auto range = tasks.next()) function(range->begin, range->end, member);
  };
  // Of a single task only the caller would get something: waking the others is for nothing.
  execute(take_all, size_ == 1 || count <= grain);
}

}  // namespace tandem::system
