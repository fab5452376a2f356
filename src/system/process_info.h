#pragma once
// What this process holds at the moment, from /proc/self: for metrics, and for tests that nothing
// leaks. Any thread.

#include <chrono>
#include <cstdint>

#include "base/error.h"

namespace tandem::system {

struct ProcessInfo {
  int64_t resident_bytes = 0;
  int64_t peak_resident_bytes = 0;
  int open_files = 0;  // descriptors
  int threads = 0;
};

// Errors: kIo, kNotFound where /proc is missing.
Expected<ProcessInfo> read_process_info();

// CPU time of all threads since the start, user and system.
std::chrono::microseconds process_cpu_time();

}  // namespace tandem::system
