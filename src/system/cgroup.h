#pragma once
// What a container lets the process use: CPU quota and memory, from cgroup v1, v2 or both at once.
// `root` is put before every absolute path, so that tests can lay out their own /proc and /sys.
// Missing or odd files mean "no limit", never an error. Any thread.

#include <cstdint>
#include <optional>
#include <string>

#include "system/affinity.h"
#include "system/cpu_set.h"

namespace tandem::system {

struct CgroupLimits {
  std::optional<double> cpu_cores;  // quota / period, the smallest on the way up the tree
  std::optional<int64_t> memory_limit_bytes;
  // The smallest limit minus use on the way up; file pages that the kernel would drop count as
  // free.
  std::optional<int64_t> memory_available_bytes;
};

CgroupLimits read_cgroup_limits(const std::string& root = "");

// min(CPUs in the mask, quota rounded up), at least 1.
int usable_threads(const CpuSet& affinity, const CgroupLimits& limits);
// For this process, now.
int usable_threads();

// From /proc/meminfo; 0 if it cannot be read.
int64_t total_memory_bytes(const std::string& root = "");
// min(the machine's MemAvailable, what the cgroup leaves).
int64_t available_memory_bytes(const std::string& root = "");

}  // namespace tandem::system
