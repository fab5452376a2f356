#include "system/cpu_set.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "base/check.h"
#include "base/log.h"

namespace tandem::system {

namespace {

std::string_view strip(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

bool parse_number(std::string_view text, int& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() && value >= 0 &&
         value < CpuSet::kMaxCpus;
}

}  // namespace

CpuSet::CpuSet(std::vector<int> cpus) : cpus_(std::move(cpus)) {
  std::ranges::sort(cpus_);
  cpus_.erase(std::ranges::unique(cpus_).begin(), cpus_.end());
  TANDEM_CHECK(cpus_.empty() || (cpus_.front() >= 0 && cpus_.back() < kMaxCpus));
}

Expected<CpuSet> CpuSet::parse(std::string_view text) {
  std::vector<bool> member(kMaxCpus, false);  // bounds the work: "0-8191" a million times is cheap
  std::string_view rest = strip(text);
  const bool any = !rest.empty();
  while (any) {
    const size_t comma = rest.find(',');
    const std::string_view item = rest.substr(0, comma);
    const size_t dash = item.find('-');
    int low = 0;
    int high = 0;
    bool good = parse_number(item.substr(0, dash), low);
    high = low;
    if (dash != std::string_view::npos) {
      good = good && parse_number(item.substr(dash + 1), high) && low <= high;
    }
    if (!good) {
      return fail(ErrorCode::kInvalidArgument,
                  "'{}' is not a list of CPUs such as 0-3,8 (numbers below {})",
                  log_safe(text),
                  kMaxCpus);
    }
    std::fill(member.begin() + low, member.begin() + high + 1, true);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  CpuSet result;
  for (int cpu = 0; cpu < kMaxCpus; ++cpu) {
    if (member[cpu]) result.cpus_.push_back(cpu);
  }
  return result;
}

std::string CpuSet::to_string() const {
  std::string text;
  for (size_t i = 0; i < cpus_.size();) {
    size_t last = i;
    while (last + 1 < cpus_.size() && cpus_[last + 1] == cpus_[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += last == i ? fmt::format("{}", cpus_[i]) : fmt::format("{}-{}", cpus_[i], cpus_[last]);
    i = last + 1;
  }
  return text;
}

bool CpuSet::contains(int cpu) const { return std::ranges::binary_search(cpus_, cpu); }

bool CpuSet::contains(const CpuSet& other) const {
  return std::ranges::includes(cpus_, other.cpus_);
}

CpuSet CpuSet::intersect(const CpuSet& other) const {
  CpuSet result;
  std::ranges::set_intersection(cpus_, other.cpus_, std::back_inserter(result.cpus_));
  return result;
}

CpuSet CpuSet::unite(const CpuSet& other) const {
  CpuSet result;
  std::ranges::set_union(cpus_, other.cpus_, std::back_inserter(result.cpus_));
  return result;
}

}  // namespace tandem::system
