#pragma once
// A set of logical CPU numbers as the operating system counts them. A value; any thread.

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace tandem::system {

class CpuSet {
 public:
  // The largest number Linux can be built for (CONFIG_NR_CPUS with MAXSMP on x86).
  static constexpr int kMaxCpus = 8192;

  CpuSet() = default;
  // In any order; repeated numbers count once. Each must be in [0, kMaxCpus).
  explicit CpuSet(std::vector<int> cpus);

  // "0-3,8" as in /sys and taskset; blanks around the text are ignored; "" is the empty set.
  // Errors: kInvalidArgument.
  static Expected<CpuSet> parse(std::string_view text);
  std::string to_string() const;

  // Ascending, without repeats.
  const std::vector<int>& cpus() const { return cpus_; }
  int size() const { return static_cast<int>(cpus_.size()); }
  bool empty() const { return cpus_.empty(); }
  bool contains(int cpu) const;
  bool contains(const CpuSet& other) const;

  CpuSet intersect(const CpuSet& other) const;
  CpuSet unite(const CpuSet& other) const;

  bool operator==(const CpuSet&) const = default;

 private:
  std::vector<int> cpus_;
};

}  // namespace tandem::system
