#include "system/process_info.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "system/pages.h"
#include "system/unique_fd.h"

namespace tandem::system {
namespace {

TEST(ProcessInfo, CountsFilesThreadsAndMemory) {
  std::thread([] {}).join();  // the thread sanitizer adds one of its own beside the first
  // The kernel drops a joined thread from the list a moment later.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const ProcessInfo before = read_process_info().value();
  EXPECT_GE(before.threads, 1);
  EXPECT_GT(before.resident_bytes, 0);
  EXPECT_GE(before.peak_resident_bytes, before.resident_bytes);
  const UniqueFd fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const size_t bytes = size_t{64} << 20;
  const auto pages = allocate_pages(bytes, PageSize::kDefault).value();
  std::memset(pages.data(), 1, bytes);
  std::jthread sleeper([](std::stop_token stop) {
    while (!stop.stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  const ProcessInfo after = read_process_info().value();
  EXPECT_EQ(after.open_files, before.open_files + 1);
  EXPECT_EQ(after.threads, before.threads + 1);
  EXPECT_GE(after.resident_bytes, before.resident_bytes + static_cast<int64_t>(bytes) * 9 / 10);
}

TEST(ProcessInfo, CpuTimeGrowsWithWork) {
  const auto start = process_cpu_time();
  const auto wall_start = std::chrono::steady_clock::now();
  volatile double sum = 0;
  while (process_cpu_time() - start < std::chrono::milliseconds(20)) {
    for (int i = 0; i < 10000; ++i) sum = sum + i;
    ASSERT_LT(std::chrono::steady_clock::now() - wall_start, std::chrono::seconds(60));
  }
  EXPECT_GE(process_cpu_time() - start, std::chrono::milliseconds(20));
}

}  // namespace
}  // namespace tandem::system
