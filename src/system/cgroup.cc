#include "system/cgroup.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>
#include <vector>

#include "system/files.h"

namespace tandem::system {

namespace {

constexpr size_t kMaxFileBytes = size_t{4} << 20;
constexpr int kMaxDepth = 64;  // cgroups nest by name length only; no real tree comes near
// v1 writes "no limit" as the largest whole page count (0x7FFFFFFFFFFFF000 with 4 KiB pages).
constexpr int64_t kUnlimitedBytes = int64_t{1} << 62;

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::optional<int64_t> to_int(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<int64_t> read_int(const std::string& path) {
  const auto text = read_text_file(path, kMaxFileBytes);
  return text ? to_int(*text) : std::nullopt;
}

// The number after `key` in a file of "key value" lines; meminfo's "key:   value kB" too.
std::optional<int64_t> read_keyed_int(const std::string& path, std::string_view key) {
  const auto text = read_text_file(path, kMaxFileBytes);
  if (!text) return std::nullopt;
  for (std::string_view line : split(*text, '\n')) {
    if (!line.starts_with(key)) continue;
    line.remove_prefix(key.size());
    if (!line.starts_with(' ')) continue;
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    return to_int(line.substr(0, line.find(' ')));
  }
  return std::nullopt;
}

template <class T>
void lower(std::optional<T>& bound, std::optional<T> value) {
  if (value) bound = bound ? std::min(*bound, *value) : value;
}

// mountinfo writes blanks and backslashes as \ooo.
std::string unescape_mount(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto octal = [&](size_t at) { return text[at] >= '0' && text[at] <= '7'; };
    if (text[i] == '\\' && i + 3 < text.size() && octal(i + 1) && octal(i + 2) && octal(i + 3)) {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                               (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

struct CgroupMount {
  bool v2 = false;
  std::string root;   // which part of the hierarchy is mounted
  std::string point;  // where
  std::string options;
};

// Format: proc(5), "/proc/pid/mountinfo".
std::vector<CgroupMount> read_mounts(const std::string& root) {
  std::vector<CgroupMount> mounts;
  const auto text = read_text_file(root + "/proc/self/mountinfo", kMaxFileBytes);
  if (!text) return mounts;
  for (const std::string_view line : split(*text, '\n')) {
    const std::vector<std::string_view> fields = split(line, ' ');
    const auto dash = std::ranges::find(fields, "-");
    if (fields.size() < 10 || fields.end() - dash < 4 || dash - fields.begin() < 6) continue;
    if (dash[1] != "cgroup" && dash[1] != "cgroup2") continue;
    mounts.push_back({.v2 = dash[1] == "cgroup2",
                      .root = unescape_mount(fields[3]),
                      .point = unescape_mount(fields[4]),
                      .options = std::string(dash[3])});
  }
  return mounts;
}

// The process's folder in the mounted hierarchy and every one above it. A path outside of the mount
// (a container without its own cgroup namespace) means the mount's top.
std::vector<std::string> folders_upward(const CgroupMount& mount, std::string_view path) {
  std::string relative;
  if (mount.root == "/") {
    relative = path;
  } else if (path.starts_with(mount.root) && path.substr(mount.root.size()).starts_with('/')) {
    relative = path.substr(mount.root.size());
  }
  if (relative.find("..") != std::string::npos) relative.clear();
  while (relative.ends_with('/')) relative.pop_back();
  std::vector<std::string> folders;
  while (!relative.empty() && folders.size() < kMaxDepth) {
    folders.push_back(mount.point + relative);
    relative.resize(std::min(relative.rfind('/'), relative.size() - 1));
  }
  folders.push_back(mount.point);
  return folders;
}

void add_memory(CgroupLimits& limits,
                std::optional<int64_t> limit,
                std::optional<int64_t> used,
                std::optional<int64_t> droppable) {
  if (!limit || *limit < 0 || *limit >= kUnlimitedBytes) return;
  lower(limits.memory_limit_bytes, limit);
  if (!used) return;
  const int64_t held = std::max<int64_t>(0, *used - std::max<int64_t>(0, droppable.value_or(0)));
  lower(limits.memory_available_bytes, std::optional(std::max<int64_t>(0, *limit - held)));
}

void add_cpu(CgroupLimits& limits, std::optional<int64_t> quota, std::optional<int64_t> period) {
  if (!quota || !period || *quota <= 0 || *period <= 0) return;
  lower(limits.cpu_cores,
        std::optional(static_cast<double>(*quota) / static_cast<double>(*period)));
}

// Files: kernel documentation, admin-guide/cgroup-v2.rst.
void add_v2_folder(CgroupLimits& limits, const std::string& folder) {
  if (const auto text = read_text_file(folder + "/cpu.max", kMaxFileBytes)) {
    const auto parts = split(*text, ' ');
    if (parts.size() == 2) add_cpu(limits, to_int(parts[0]), to_int(parts[1]));
  }
  // memory.high does not kill but slows to a crawl: as good as a limit.
  std::optional<int64_t> limit = read_int(folder + "/memory.max");
  lower(limit, read_int(folder + "/memory.high"));
  if (!limit) return;
  add_memory(limits,
             limit,
             read_int(folder + "/memory.current"),
             read_keyed_int(folder + "/memory.stat", "inactive_file"));
}

// Files: kernel documentation, scheduler/sched-bwc.rst and admin-guide/cgroup-v1/memory.rst.
void add_v1_folder(CgroupLimits& limits, const std::string& folder) {
  add_cpu(limits, read_int(folder + "/cpu.cfs_quota_us"), read_int(folder + "/cpu.cfs_period_us"));
  const auto limit = read_int(folder + "/memory.limit_in_bytes");
  if (!limit) return;
  add_memory(limits,
             limit,
             read_int(folder + "/memory.usage_in_bytes"),
             read_keyed_int(folder + "/memory.stat", "total_inactive_file"));
}

bool lists(std::string_view commas, std::string_view word) {
  const std::vector<std::string_view> words = split(commas, ',');
  return std::ranges::find(words, word) != words.end();
}

}  // namespace

CgroupLimits read_cgroup_limits(const std::string& root) {
  CgroupLimits limits;
  const auto text = read_text_file(root + "/proc/self/cgroup", kMaxFileBytes);
  if (!text) return limits;
  const std::vector<CgroupMount> mounts = read_mounts(root);
  for (const std::string_view line : split(*text, '\n')) {  // "id:controllers:path"
    const size_t first = line.find(':');
    if (first == std::string_view::npos) continue;
    const size_t second = line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string_view path = line.substr(second + 1);
    for (const CgroupMount& mount : mounts) {
      const bool mine = mount.v2
                            ? controllers.empty()
                            : (lists(controllers, "cpu") && lists(mount.options, "cpu")) ||
                                  (lists(controllers, "memory") && lists(mount.options, "memory"));
      if (!mine) continue;
      for (const std::string& folder : folders_upward(mount, path)) {
        mount.v2 ? add_v2_folder(limits, root + folder) : add_v1_folder(limits, root + folder);
      }
    }
  }
  return limits;
}

int usable_threads(const CpuSet& affinity, const CgroupLimits& limits) {
  int threads = std::max(1, affinity.size());
  if (limits.cpu_cores && *limits.cpu_cores < threads) {
    threads = std::max(1, static_cast<int>(std::ceil(*limits.cpu_cores)));
  }
  return threads;
}

int usable_threads() { return usable_threads(affinity_cpus(), read_cgroup_limits()); }

int64_t total_memory_bytes(const std::string& root) {
  const int64_t kibibytes = read_keyed_int(root + "/proc/meminfo", "MemTotal:").value_or(0);
  return std::clamp<int64_t>(kibibytes, 0, INT64_MAX / 1024) * 1024;
}

int64_t available_memory_bytes(const std::string& root) {
  const int64_t kibibytes = read_keyed_int(root + "/proc/meminfo", "MemAvailable:").value_or(0);
  std::optional<int64_t> bytes = std::clamp<int64_t>(kibibytes, 0, INT64_MAX / 1024) * 1024;
  lower(bytes, read_cgroup_limits(root).memory_available_bytes);
  return *bytes;
}

}  // namespace tandem::system
