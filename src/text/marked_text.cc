#include "text/marked_text.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tandem::text {
namespace {

// The first range that ends behind `position`.
std::vector<Range>::const_iterator first_behind(const std::vector<Range>& ranges, size_t position) {
  return std::upper_bound(
      ranges.begin(), ranges.end(), position, [](size_t value, const Range& range) {
        return value < range.end;
      });
}

}  // namespace

bool ranges_touch(const std::vector<Range>& ranges, size_t begin, size_t end) {
  if (begin >= end) return false;
  const auto it = first_behind(ranges, begin);
  return it != ranges.end() && it->begin < end;
}

MarkedText::MarkedText(std::string text, bool untrusted) : text_(std::move(text)) {
  if (untrusted) mark_all();
}

MarkedText::MarkedText(std::string text, const std::vector<Range>& untrusted)
    : text_(std::move(text)) {
  size_t last_end = 0;
  for (const Range& range : untrusted) {
    TANDEM_CHECK(range.begin >= last_end && range.begin <= range.end && range.end <= text_.size(),
                 "untrusted ranges are sorted, disjoint and inside the text");
    last_end = range.end;
    mark(range.begin, range.end);
  }
}

void MarkedText::mark(size_t begin, size_t end) {
  if (begin == end) return;
  if (!untrusted_.empty() && untrusted_.back().end == begin) {
    untrusted_.back().end = end;
  } else {
    untrusted_.push_back({begin, end});
  }
}

void MarkedText::mark_all() {
  untrusted_.clear();
  mark(0, text_.size());
}

void MarkedText::append(std::string_view text, bool untrusted) {
  const size_t begin = text_.size();
  text_.append(text);
  if (untrusted) mark(begin, text_.size());
}

void MarkedText::append(const MarkedText& other, size_t begin, size_t end) {
  TANDEM_CHECK(begin <= end && end <= other.size(), "a slice lies inside the text");
  TANDEM_CHECK(this != &other);
  const size_t offset = text_.size();
  text_.append(other.text_, begin, end - begin);
  for (auto it = first_behind(other.untrusted_, begin); it != other.untrusted_.end(); ++it) {
    if (it->begin >= end) break;
    mark(std::max(it->begin, begin) - begin + offset, std::min(it->end, end) - begin + offset);
  }
}

MarkedText MarkedText::slice(size_t begin, size_t end) const {
  MarkedText out;
  out.append(*this, begin, end);
  return out;
}

bool MarkedText::touches(size_t begin, size_t end) const {
  return ranges_touch(untrusted_, begin, end);
}

}  // namespace tandem::text
