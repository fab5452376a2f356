#pragma once
// One compiled regular expression, over PCRE2 with JIT, UTF and Unicode properties.
// Regex: immutable after compile, any thread. RegexScratch: one thread at a time.

#include <cstddef>
#include <memory>
#include <string_view>

#include "base/error.h"
#include "text/marked_text.h"

namespace tandem::text {

// Working memory for matching; serves any Regex.
class RegexScratch {
 public:
  RegexScratch();
  ~RegexScratch();
  RegexScratch(RegexScratch&&) noexcept;
  RegexScratch& operator=(RegexScratch&&) noexcept;

 private:
  friend class Regex;
  struct State;
  std::unique_ptr<State> state_;
};

class Regex {
 public:
  // `pattern` as tokenizer.json writes it (regex_pattern.h). Errors: kUnsupported.
  static Expected<Regex> compile(std::string_view pattern);
  // `literal`: matches itself.
  static Expected<Regex> compile_literal(std::string_view literal);

  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  // The leftmost match in `subject` that starts at byte `start` or later. `subject` is valid UTF-8
  // and `start` a code point boundary. No match: begin > end in the answer (see found()).
  // Errors: kInvalidArgument where the match or stack limit is passed.
  Expected<Range> find(std::string_view subject, size_t start, RegexScratch& scratch) const;
  static bool found(const Range& range) { return range.begin <= range.end; }

 private:
  struct Code;
  explicit Regex(std::unique_ptr<Code> code);
  static Expected<Regex> compile_pcre2(std::string_view pattern, std::string_view shown);

  std::unique_ptr<Code> code_;
};

}  // namespace tandem::text
