#pragma once
// A text and the parts of it that came from outside (a client's message, a tool's arguments).
// Added tokens of a tokenizer are never recognised in those parts, so no message can forge one.
// Values; any thread may use its own.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::text {

// Bytes [begin, end).
struct Range {
  size_t begin = 0;
  size_t end = 0;
  bool operator==(const Range&) const = default;
};

class MarkedText {
 public:
  MarkedText() = default;
  // All of `text` trusted, or all of it untrusted.
  MarkedText(std::string text, bool untrusted);
  // `untrusted`: sorted, disjoint, inside the text (TANDEM_CHECK).
  MarkedText(std::string text, const std::vector<Range>& untrusted);

  const std::string& text() const { return text_; }
  // Sorted, disjoint, not adjacent, none empty.
  const std::vector<Range>& untrusted() const { return untrusted_; }
  size_t size() const { return text_.size(); }
  bool empty() const { return text_.empty(); }

  void append(std::string_view text, bool untrusted);
  void append(const MarkedText& other) { append(other, 0, other.size()); }
  // Bytes [begin, end) of `other` with their marks.
  void append(const MarkedText& other, size_t begin, size_t end);
  MarkedText slice(size_t begin, size_t end) const;

  // Whether any byte of [begin, end) is untrusted.
  bool touches(size_t begin, size_t end) const;
  bool any_untrusted() const { return !untrusted_.empty(); }
  void mark_all();

  bool operator==(const MarkedText&) const = default;

 private:
  void mark(size_t begin, size_t end);

  std::string text_;
  std::vector<Range> untrusted_;
};

// Whether any byte of [begin, end) lies in one of `ranges` (sorted, disjoint).
bool ranges_touch(const std::vector<Range>& ranges, size_t begin, size_t end);

}  // namespace tandem::text
