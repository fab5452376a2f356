#include "system/thread_team.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "system/affinity.h"
#include "system/process_info.h"

namespace tandem::system {
namespace {

std::unique_ptr<ThreadTeam> make_team(int threads) {
  auto team = ThreadTeam::create({.thread_count = threads});
  EXPECT_TRUE(team) << team.error().to_line();
  return std::move(*team);
}

class ThreadTeamSizes : public testing::TestWithParam<int> {};

TEST_P(ThreadTeamSizes, RunsEveryMemberOnceEachTime) {
  const auto team = make_team(GetParam());
  ASSERT_EQ(team->size(), GetParam());
  std::vector<int> calls(static_cast<size_t>(team->size()), 0);
  const auto caller = std::this_thread::get_id();
  for (int i = 1; i <= 300; ++i) {
    team->run([&](int member, int count) {
      EXPECT_EQ(count, team->size());
      EXPECT_EQ(member == 0, std::this_thread::get_id() == caller);
      ++calls[static_cast<size_t>(member)];
    });
    for (const int n : calls) ASSERT_EQ(n, i);
  }
}

TEST_P(ThreadTeamSizes, BarrierSeparatesPhases) {
  const auto team = make_team(GetParam());
  std::vector<int> phase(static_cast<size_t>(team->size()), 0);
  std::atomic<int> wrong{0};
  for (int round = 0; round < 3; ++round) {
    team->run([&](int member, int count) {
      for (int step = 1; step <= 50; ++step) {
        ++phase[static_cast<size_t>(member)];
        team->barrier();
        for (int other = 0; other < count; ++other) {
          if (phase[static_cast<size_t>(other)] != round * 50 + step) wrong.fetch_add(1);
        }
        team->barrier();
      }
    });
  }
  EXPECT_EQ(wrong.load(), 0);
}

TEST_P(ThreadTeamSizes, ParallelForCoversEachIndexOnceInFixedRanges) {
  const auto team = make_team(GetParam());
  for (const auto& [count, grain] :
       {std::pair{0, 1}, {1, 1}, {7, 10}, {1000, 1}, {1000, 7}, {64, 64}, {65, 64}}) {
    std::vector<int> touched(static_cast<size_t>(count), 0);
    std::atomic<int> calls{0};
    team->parallel_for(count, grain, [&](int64_t begin, int64_t end, int member) {
      EXPECT_EQ(begin % grain, 0);
      EXPECT_EQ(end, std::min<int64_t>(count, begin + grain));
      EXPECT_GE(member, 0);
      EXPECT_LT(member, team->size());
      for (int64_t i = begin; i < end; ++i) ++touched[static_cast<size_t>(i)];
      calls.fetch_add(1);
    });
    EXPECT_EQ(std::accumulate(touched.begin(), touched.end(), 0), count);
    EXPECT_TRUE(std::ranges::all_of(touched, [](int n) { return n == 1; }));
    EXPECT_EQ(calls.load(), (count + grain - 1) / grain);
  }
}

TEST_P(ThreadTeamSizes, EveryMemberFlushesDenormalsAndTheCallerGetsItsModeBack) {
  const auto team = make_team(GetParam());
  volatile float smallest = std::numeric_limits<float>::min();
  std::atomic<int> kept{0};
  team->run([&](int, int) {
    volatile float half = smallest * 0.5f;
    if (half != 0.0f) kept.fetch_add(1);
  });
  EXPECT_EQ(kept.load(), 0);
  volatile float half = smallest * 0.5f;
  EXPECT_GT(half, 0.0f);
}

// 7 is more than a small machine has: waits must yield and sleep.
INSTANTIATE_TEST_SUITE_P(All, ThreadTeamSizes, testing::Values(1, 2, 3, 7));

TEST(ThreadTeam, WakesSleepersAgainAndAgain) {
  const auto team = make_team(3);
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // longer than any looking out
    std::atomic<int> ran{0};
    team->run([&](int member, int) {
      // The others wait for the slowest long enough to sleep too.
      if (member == i % 3) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      team->barrier();
      ran.fetch_add(1);
    });
    ASSERT_EQ(ran.load(), 3);
  }
}

TEST(ThreadTeam, IdleCostsNothing) {
  const auto team = make_team(4);
  team->run([](int, int) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const auto before = process_cpu_time();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_LT(process_cpu_time() - before, std::chrono::milliseconds(5));  // 1 % of a core
}

TEST(ThreadTeam, LeavesNoThreadBehind) {
  std::thread([] {}).join();  // the thread sanitizer adds one of its own beside the first
  // The kernel drops a joined thread from the list a moment later.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const int before = read_process_info().value().threads;
  {
    const auto team = make_team(5);
    EXPECT_EQ(read_process_info().value().threads, before + 4);
    team->run([](int, int) {});
    const auto unused = make_team(2);
  }
  for (int i = 0; i < 1000 && read_process_info().value().threads != before; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(read_process_info().value().threads, before);
}

TEST(ThreadTeam, TwoTeamsWorkAtTheSameTime) {
  const auto first = make_team(2);
  const auto second = make_team(2);
  std::array<int64_t, 2> sums{};
  const auto drive = [](ThreadTeam& team, int64_t& sum) {
    for (int i = 0; i < 200; ++i) {
      std::array<int64_t, 2> part{};
      team.parallel_for(100, 3, [&](int64_t begin, int64_t end, int member) {
        for (int64_t k = begin; k < end; ++k) part[static_cast<size_t>(member)] += k;
      });
      sum += part[0] + part[1];
    }
  };
  std::thread other([&] { drive(*second, sums[1]); });
  drive(*first, sums[0]);
  other.join();
  EXPECT_EQ(sums[0], 200 * 4950);
  EXPECT_EQ(sums[1], 200 * 4950);
}

TEST(ThreadTeam, PinsWhenTold) {
  const CpuSet mask = affinity_cpus();
  const CpuSet own = thread_affinity(pthread_self());
  const int threads = std::min(2, mask.size());
  auto team = ThreadTeam::create({.thread_count = threads, .pin = PinMode::kOn});
  ASSERT_TRUE(team) << team.error().to_line();
  EXPECT_TRUE((*team)->pinned());
  ASSERT_TRUE((*team)->bind_calling_thread());
  std::vector<CpuSet> places(static_cast<size_t>(threads));
  (*team)->run([&](int member, int) {
    places[static_cast<size_t>(member)] = thread_affinity(pthread_self());
  });
  ASSERT_TRUE(bind_thread(pthread_self(), own));
  for (int i = 0; i < threads; ++i)
    EXPECT_EQ(places[static_cast<size_t>(i)], CpuSet({mask.cpus()[static_cast<size_t>(i)]}));
}

TEST(ThreadTeam, KeepsWorkersInsideAPartOfTheMask) {
  const CpuSet mask = affinity_cpus();
  if (mask.size() < 2 || mask.size() > 8) GTEST_SKIP() << "wants 2 to 8 CPUs";
  const CpuSet part({mask.cpus()[1]});
  const auto team = ThreadTeam::create({.thread_count = 2, .cpus = part}).value();
  EXPECT_FALSE(team->pinned());
  EXPECT_TRUE(team->oversubscribed());
  CpuSet place;
  team->run([&](int member, int) {
    if (member == 1) place = thread_affinity(pthread_self());
  });
  EXPECT_EQ(place, part);
}

TEST(ThreadTeam, PinsByItselfOnlyOnCpusOfItsOwn) {
  const CpuSet mask = CpuSet::parse("0-15").value();
  const CpuSet node = CpuSet::parse("0-7").value();
  EXPECT_TRUE(should_pin(mask, mask, {}, 16));
  EXPECT_TRUE(should_pin(node, mask, {}, 8));
  EXPECT_TRUE(should_pin(mask, mask, {.cpu_cores = 16.0}, 16));
  EXPECT_FALSE(should_pin(mask, mask, {.cpu_cores = 12.0}, 12));  // a quota: time, not CPUs
  EXPECT_FALSE(should_pin(mask, mask, {}, 17));
  EXPECT_FALSE(should_pin(CpuSet::parse("0-6").value(), mask, {}, 7));
  EXPECT_FALSE(should_pin(CpuSet::parse("8-16").value(), mask, {}, 8));
}

TEST(ThreadTeam, RefusesWrongOptions) {
  for (const int threads : {0, -1, ThreadTeam::kMaxThreads + 1}) {
    const auto team = ThreadTeam::create({.thread_count = threads});
    ASSERT_FALSE(team);
    EXPECT_EQ(team.error().code, ErrorCode::kInvalidArgument);
  }
  const CpuSet absent({CpuSet::kMaxCpus - 1});
  EXPECT_FALSE(ThreadTeam::create({.thread_count = 1, .cpus = absent}));
  const CpuSet one({affinity_cpus().cpus().front()});
  EXPECT_FALSE(ThreadTeam::create({.thread_count = 2, .cpus = one, .pin = PinMode::kOn}));
}

TEST(TaskCounter, GivesOutRangesAndThenNothing) {
  TaskCounter tasks(5, 2);
  EXPECT_EQ(tasks.next()->begin, 0);
  EXPECT_EQ(tasks.next()->end, 4);
  const auto last = tasks.next();
  EXPECT_EQ(last->begin, 4);
  EXPECT_EQ(last->end, 5);
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(tasks.next());
  tasks.reset(1, 1);
  EXPECT_TRUE(tasks.next());
  EXPECT_FALSE(tasks.next());
  TaskCounter empty(0, 1);
  EXPECT_FALSE(empty.next());
}

TEST(ThreadTeamDeathTest, StopsTheProgramOnMisuse) {
  EXPECT_DEATH(
      {
        const auto team = make_team(1);
        team->run([&](int, int) { team->run([](int, int) {}); });
      },
      "inside run");
  EXPECT_DEATH(
      {
        const auto team = make_team(1);
        team->run([](int, int) { throw std::runtime_error("escaped"); });
      },
      "escaped");
}

}  // namespace
}  // namespace tandem::system
