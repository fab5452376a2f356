#pragma once
// Cuts a text into the pieces that BPE merges inside: a chain of splits, then the byte-level step.
// Immutable after it is built; any thread, each with its own RegexScratch.

#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/regex.h"

namespace tandem::text {

// What becomes of a match, as in the tokenizers library: a piece of its own; nothing; a part of the
// piece before or behind; one piece for adjoining matches.
enum class SplitBehavior { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };

class PieceSink {
 public:
  virtual ~PieceSink() = default;
  // `piece` is not empty and lives only during the call.
  virtual void piece(std::string_view piece) = 0;
};

class PreTokenizer {
 public:
  void add_split(Regex pattern, SplitBehavior behavior, bool invert);
  // Puts a blank before each piece that does not start with one.
  void add_prefix_space();

  // Sends the pieces of `text` (valid UTF-8) in order. Errors: a regular expression's limit.
  Expected<void> run(std::string_view text, RegexScratch& scratch, PieceSink& sink) const;

 private:
  // A text and what the regular expressions see in its place: equal lengths (newer_unicode.h).
  struct Texts {
    std::string_view text;
    std::string_view seen;
  };
  struct Step {
    std::vector<Regex> regex;  // empty: the prefix blank
    SplitBehavior behavior = SplitBehavior::kIsolated;
    bool invert = false;
  };
  struct Run {
    RegexScratch& scratch;
    PieceSink& sink;
  };
  struct Part {
    Range range;
    bool is_match;
  };

  Expected<void> run_step(size_t step, Texts texts, Run& run) const;
  Expected<void> run_isolated(size_t step, Texts texts, Run& run) const;
  Expected<void> run_split(size_t step, Texts texts, Run& run) const;
  static void merge_parts(std::vector<Part>& parts, SplitBehavior behavior);

  std::vector<Step> steps_;
};

}  // namespace tandem::text
