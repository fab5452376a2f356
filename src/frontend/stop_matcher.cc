#include "frontend/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace tandem::frontend {

StopMatcher::Result StopMatcher::push(std::string_view piece, bool armed) {
  if (stops_.empty()) return {std::string(piece), -1};
  // Matches end inside the new piece, so ends are tried in order from its first byte.
  const size_t first_end = pending_.size() + 1;
  pending_ += piece;
  const std::string_view text = pending_;
  for (size_t end = first_end; armed && end <= text.size(); ++end) {
    const std::string_view so_far = text.substr(0, end);
    for (size_t i = 0; i < stops_.size(); ++i) {
      if (!so_far.ends_with(stops_[i])) continue;
      const size_t keep = include_ ? end : end - stops_[i].size();
      Result result{pending_.substr(0, keep), static_cast<int>(i)};
      pending_.clear();
      return result;
    }
  }
  const size_t release = pending_.size() - held_length();
  Result result{pending_.substr(0, release), -1};
  pending_.erase(0, release);
  return result;
}

// Length of the longest end of pending_ that a stop string begins with.
size_t StopMatcher::held_length() const {
  size_t held = 0;
  const std::string_view text = pending_;
  for (const std::string& stop : stops_) {
    for (size_t n = std::min(stop.size() - 1, text.size()); n > held; --n) {
      if (text.ends_with(std::string_view(stop).substr(0, n))) {
        held = n;
        break;
      }
    }
  }
  return held;
}

std::string StopMatcher::flush() { return std::exchange(pending_, {}); }

}  // namespace tandem::frontend
