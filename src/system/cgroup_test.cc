#include "system/cgroup.h"

#include <gtest/gtest.h>

#include "system/temporary_directory.h"

namespace tandem::system {
namespace {

constexpr const char* kMountV2 =
    "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";

TEST(Cgroup, ReadsTheSmallestLimitOnTheWayUpV2) {
  TemporaryDirectory root;
  root.write("proc/self/cgroup", "0::/pod/engine\n");
  root.write("proc/self/mountinfo",
             std::string("22 1 8:1 / / rw - ext4 /dev/sda1 rw\n") + kMountV2);
  root.write("proc/meminfo", "MemTotal:       8000 kB\nMemAvailable:    4000 kB\n");
  root.write("sys/fs/cgroup/pod/cpu.max", "250000 100000\n");
  root.write("sys/fs/cgroup/pod/memory.max", "1000000\n");
  root.write("sys/fs/cgroup/pod/memory.current", "600000\n");
  root.write("sys/fs/cgroup/pod/memory.stat", "anon 5\ninactive_file_x 9\ninactive_file 100000\n");
  root.write("sys/fs/cgroup/pod/engine/cpu.max", "max 100000\n");
  root.write("sys/fs/cgroup/pod/engine/memory.max", "max\n");
  root.write("sys/fs/cgroup/pod/engine/memory.current", "1\n");
  const CgroupLimits limits = read_cgroup_limits(root.path());
  EXPECT_EQ(limits.cpu_cores, 2.5);
  EXPECT_EQ(limits.memory_limit_bytes, 1000000);
  EXPECT_EQ(limits.memory_available_bytes, 500000);
  EXPECT_EQ(available_memory_bytes(root.path()), 500000);
  EXPECT_EQ(total_memory_bytes(root.path()), 8000 * 1024);
}

TEST(Cgroup, TreatsMemoryHighAsALimit) {
  TemporaryDirectory root;
  root.write("proc/self/cgroup", "0::/\n");
  root.write("proc/self/mountinfo", kMountV2);
  root.write("sys/fs/cgroup/memory.max", "max\n");
  root.write("sys/fs/cgroup/memory.high", "700\n");
  root.write("sys/fs/cgroup/memory.current", "900\n");
  const CgroupLimits limits = read_cgroup_limits(root.path());
  EXPECT_EQ(limits.memory_limit_bytes, 700);
  EXPECT_EQ(limits.memory_available_bytes, 0);
  EXPECT_FALSE(limits.cpu_cores);
}

TEST(Cgroup, ReadsV1BesideAnEmptyV2) {
  TemporaryDirectory root;
  root.write("proc/self/cgroup",
             "5:cpu,cpuacct:/a b\n4:memory:/docker/xyz\n1:name=systemd:/\n0::/\n");
  root.write("proc/self/mountinfo",
             "32 31 0:29 / /sys/fs/cgroup/cpu\\040acct rw - cgroup cgroup rw,cpu,cpuacct\n"
             "35 31 0:32 /docker/xyz /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
             "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  root.write("sys/fs/cgroup/cpu acct/a b/cpu.cfs_quota_us", "400000\n");
  root.write("sys/fs/cgroup/cpu acct/a b/cpu.cfs_period_us", "100000\n");
  root.write("sys/fs/cgroup/cpu acct/cpu.cfs_quota_us", "-1\n");
  root.write("sys/fs/cgroup/cpu acct/cpu.cfs_period_us", "100000\n");
  // The container sees its own part of the hierarchy as the mount's top.
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "5000\n");
  root.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "3000\n");
  root.write("sys/fs/cgroup/memory/memory.stat", "total_inactive_file 1000\n");
  const CgroupLimits limits = read_cgroup_limits(root.path());
  EXPECT_EQ(limits.cpu_cores, 4.0);
  EXPECT_EQ(limits.memory_limit_bytes, 5000);
  EXPECT_EQ(limits.memory_available_bytes, 3000);
}

TEST(Cgroup, TakesOddFilesAsNoLimit) {
  TemporaryDirectory root;
  EXPECT_FALSE(read_cgroup_limits(root.path()).cpu_cores);
  EXPECT_EQ(available_memory_bytes(root.path()), 0);
  root.write("proc/self/cgroup", "0::/../../etc\n:\nnonsense\n4:memory:/\n");
  root.write("proc/self/mountinfo",
             std::string("- - -\n30\n") + kMountV2 +
                 "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  root.write("sys/fs/cgroup/cpu.max", "abc def ghi\n");
  root.write("sys/fs/cgroup/memory.max", "99999999999999999999999\n");
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  const CgroupLimits limits = read_cgroup_limits(root.path());
  EXPECT_FALSE(limits.cpu_cores);
  EXPECT_FALSE(limits.memory_limit_bytes);
  EXPECT_FALSE(limits.memory_available_bytes);
}

TEST(Cgroup, ThreadsAreTheSmallerOfMaskAndQuota) {
  const CpuSet eight = CpuSet::parse("0-7").value();
  EXPECT_EQ(usable_threads(eight, {}), 8);
  EXPECT_EQ(usable_threads(eight, {.cpu_cores = 2.1}), 3);
  EXPECT_EQ(usable_threads(eight, {.cpu_cores = 0.05}), 1);
  EXPECT_EQ(usable_threads(eight, {.cpu_cores = 1e300}), 8);
  EXPECT_EQ(usable_threads(CpuSet(), {}), 1);
}

TEST(Cgroup, ReadsThisMachine) {
  EXPECT_GE(usable_threads(), 1);
  EXPECT_LE(usable_threads(), std::max(1, affinity_cpus().size()));
  EXPECT_GT(total_memory_bytes(), 0);
  EXPECT_GT(available_memory_bytes(), 0);
  EXPECT_LE(available_memory_bytes(), total_memory_bytes());
}

TEST(Affinity, BindsAThreadAndBack) {
  const CpuSet before = thread_affinity(pthread_self());
  ASSERT_FALSE(before.empty());
  const CpuSet one({before.cpus().front()});
  ASSERT_TRUE(bind_thread(pthread_self(), one));
  EXPECT_EQ(thread_affinity(pthread_self()), one);
  ASSERT_TRUE(bind_thread(pthread_self(), before));
  EXPECT_EQ(thread_affinity(pthread_self()), before);
  EXPECT_FALSE(bind_thread(pthread_self(), CpuSet()));
  EXPECT_FALSE(bind_thread(pthread_self(), CpuSet({CpuSet::kMaxCpus - 1})));
}

}  // namespace
}  // namespace tandem::system
