#include "system/process_info.h"

#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

#include "system/files.h"

namespace tandem::system {

namespace {

// "Key:\t  123 kB"; 0 if absent.
int64_t field(std::string_view status, std::string_view key) {
  size_t at = status.find(key);
  if (at == std::string_view::npos) return 0;
  status.remove_prefix(at + key.size());
  status.remove_prefix(std::min(status.find_first_not_of(" \t"), status.size()));
  int64_t value = 0;
  std::from_chars(status.data(), status.data() + status.size(), value);
  return value;
}

}  // namespace

Expected<ProcessInfo> read_process_info() {
  TANDEM_ASSIGN(const std::string status, read_text_file("/proc/self/status", size_t{1} << 16));
  TANDEM_ASSIGN(const auto files, list_directory("/proc/self/fd", size_t{1} << 22));
  return ProcessInfo{.resident_bytes = field(status, "\nVmRSS:") * 1024,
                     .peak_resident_bytes = field(status, "\nVmHWM:") * 1024,
                     // The listing itself held one.
                     .open_files = static_cast<int>(files.size()) - 1,
                     .threads = static_cast<int>(field(status, "\nThreads:"))};
}

std::chrono::microseconds process_cpu_time() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return std::chrono::seconds(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         std::chrono::microseconds(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

}  // namespace tandem::system
