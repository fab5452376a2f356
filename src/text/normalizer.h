#pragma once
// The chain of normalizers of tokenizer.json. Immutable after it is built; any thread, each with
// its own RegexScratch.

#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "text/marked_text.h"
#include "text/regex.h"
#include "text/unicode.h"

namespace tandem::text {

struct PrependStep {
  std::string text;  // before every text that is not empty
};
struct ReplaceStep {
  Regex pattern;
  std::string by;
};
struct LowercaseStep {};
struct StripStep {
  bool left = true;
  bool right = true;
};
using NormalizerStep = std::variant<NormalForm, PrependStep, ReplaceStep, LowercaseStep, StripStep>;

class Normalizer {
 public:
  void add(NormalizerStep step) { steps_.push_back(std::move(step)); }
  bool empty() const { return steps_.empty(); }
  // Marks follow their text; a replaced stretch is untrusted if any of it was.
  // Errors: a regular expression's limit; a result above `max_bytes`.
  Expected<MarkedText> run(MarkedText text, size_t max_bytes, RegexScratch& scratch) const;

 private:
  std::vector<NormalizerStep> steps_;
};

}  // namespace tandem::text
