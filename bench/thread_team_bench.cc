// How long an empty run(), a barrier and a small parallel_for take, and what an idle team costs.
// Usage: thread_team_bench [threads…]; default: 1, 2, … up to what this process may use.

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "system/cgroup.h"
#include "system/process_info.h"
#include "system/thread_team.h"

namespace {

using std::chrono::duration;
using Steady = std::chrono::steady_clock;

struct Percentiles {
  double p50_us = 0;
  double p99_us = 0;
};

template <class F>
Percentiles measure(int repeats, std::chrono::microseconds gap, F&& once) {
  std::vector<double> times_us;
  for (int i = 0; i < repeats; ++i) {
    if (gap.count() > 0) std::this_thread::sleep_for(gap);
    const auto start = Steady::now();
    once();
    times_us.push_back(duration<double, std::micro>(Steady::now() - start).count());
  }
  std::ranges::sort(times_us);
  return {times_us[times_us.size() / 2], times_us[times_us.size() * 99 / 100]};
}

void print(int threads, const char* what, const Percentiles& result, double divisor = 1) {
  fmt::print("{:3} threads  {:<34} p50 {:8.2f} us   p99 {:8.2f} us\n",
             threads,
             what,
             result.p50_us / divisor,
             result.p99_us / divisor);
}

int bench(int threads) {
  auto created = tandem::system::ThreadTeam::create({.thread_count = threads});
  if (!created) {
    fmt::print(stderr, "{}\n", created.error().to_line());
    return 1;
  }
  tandem::system::ThreadTeam& team = **created;
  const auto empty = [&] { team.run([](int, int) {}); };
  using std::chrono::microseconds;
  print(threads, "empty run, back to back", measure(20000, microseconds(0), empty));
  print(threads, "empty run after 5 ms asleep", measure(200, microseconds(5000), empty));
  constexpr int kBarriers = 100;
  const auto barriers = [&] {
    team.run([&](int, int) {
      for (int i = 0; i < kBarriers; ++i) team.barrier();
    });
  };
  print(threads, "barrier", measure(500, microseconds(0), barriers), kBarriers);
  const auto tasks = [&] { team.parallel_for(64, 1, [](int64_t, int64_t, int) {}); };
  print(threads, "parallel_for of 64 empty tasks", measure(5000, microseconds(0), tasks));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const auto before = tandem::system::process_cpu_time();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  const duration<double> used = tandem::system::process_cpu_time() - before;
  fmt::print("{:3} threads  idle: {:.3f} % of a core\n", threads, used.count() * 100);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<int> counts;
  for (int i = 1; i < argc; ++i) counts.push_back(std::atoi(argv[i]));
  for (int n = 1; argc == 1 && n < tandem::system::usable_threads(); n *= 2) counts.push_back(n);
  if (argc == 1) counts.push_back(tandem::system::usable_threads());
  int failures = 0;
  for (const int threads : counts) failures += bench(threads);
  return failures == 0 ? 0 : 1;
}
