#include "system/signals.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "system/process_info.h"

namespace tandem::system {
namespace {

TEST(Signals, ReportsEachSignalOnce) {
  auto waiter = SignalWaiter::create().value();
  std::stop_source stop;
  ::kill(::getpid(), SIGTERM);  // before the wait
  EXPECT_EQ(waiter.wait(stop.get_token()), SIGTERM);
  std::jthread sender([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ::kill(::getpid(), SIGINT);
  });
  EXPECT_EQ(waiter.wait(stop.get_token()), SIGINT);
  stop.request_stop();
  EXPECT_EQ(waiter.wait(stop.get_token()), std::nullopt);
  ::kill(::getpid(), SIGTERM);  // nobody waits any more: dropped, not fatal
}

TEST(Signals, StopsWaitingAndWaitsAgainWithoutSpinning) {
  auto waiter = SignalWaiter::create().value();
  for (int i = 0; i < 3; ++i) {
    std::stop_source stop;
    std::jthread stopper([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      stop.request_stop();
    });
    const auto before = process_cpu_time();
    EXPECT_EQ(waiter.wait(stop.get_token()), std::nullopt);
    EXPECT_LT(process_cpu_time() - before, std::chrono::milliseconds(20));
  }
}

TEST(Signals, AStopThatLosesAgainstASignalIsHarmless) {
  auto waiter = SignalWaiter::create().value();
  std::stop_source stop;
  stop.request_stop();
  ::kill(::getpid(), SIGTERM);
  EXPECT_EQ(waiter.wait(stop.get_token()), SIGTERM);  // a signal is never lost
  EXPECT_EQ(waiter.wait(stop.get_token()), std::nullopt);
}

TEST(Signals, AWriteToAClosedPipeIsAnErrorOnly) {
  const int files_before = read_process_info().value().open_files;
  {
    const auto waiter = SignalWaiter::create().value();
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    ::close(ends[0]);
    EXPECT_EQ(::write(ends[1], "x", 1), -1);
    EXPECT_EQ(errno, EPIPE);
    ::close(ends[1]);
  }
  EXPECT_EQ(read_process_info().value().open_files, files_before);
  struct sigaction action{};
  ASSERT_EQ(::sigaction(SIGPIPE, nullptr, &action), 0);
  EXPECT_NE(action.sa_handler, SIG_IGN);  // put back
}

}  // namespace
}  // namespace tandem::system
