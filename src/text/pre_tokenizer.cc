#include "text/pre_tokenizer.h"

#include <algorithm>
#include <optional>
#include <string>

#include "base/utf8.h"
#include "text/newer_unicode.h"

namespace tandem::text {
namespace {

// Walks the matches in `seen` in order, as the Rust binding of Oniguruma does: an empty match right
// behind the last match does not count.
template <class OnMatch>
Expected<void> for_each_match(const Regex& regex,
                              std::string_view seen,
                              RegexScratch& scratch,
                              OnMatch&& on_match) {
  size_t from = 0;
  size_t last_end = std::string_view::npos;
  while (from <= seen.size()) {
    TANDEM_ASSIGN(const Range match, regex.find(seen, from, scratch));
    if (!Regex::found(match)) break;
    if (match.begin == match.end && match.end == last_end) {
      from += from < seen.size() ? std::max<size_t>(1, utf8_sequence_length(seen.substr(from))) : 1;
      continue;
    }
    from = last_end = match.end;
    TANDEM_TRY(on_match(match));
  }
  return {};
}

}  // namespace

void PreTokenizer::add_split(Regex pattern, SplitBehavior behavior, bool invert) {
  Step step;
  step.regex.push_back(std::move(pattern));
  step.behavior = behavior;
  step.invert = invert;
  steps_.push_back(std::move(step));
}

void PreTokenizer::add_prefix_space() { steps_.emplace_back(); }

Expected<void> PreTokenizer::run(std::string_view text,
                                 RegexScratch& scratch,
                                 PieceSink& sink) const {
  const std::optional<std::string> folded = fold_newer_code_points(text);
  Run run{scratch, sink};
  return run_step(0, {text, folded ? std::string_view(*folded) : text}, run);
}

Expected<void> PreTokenizer::run_step(size_t step, Texts texts, Run& run) const {
  if (texts.text.empty()) return {};
  if (step == steps_.size()) {
    run.sink.piece(texts.text);
    return {};
  }
  const Step& current = steps_[step];
  if (current.regex.empty()) {
    if (texts.text.starts_with(' ')) return run_step(step + 1, texts, run);
    const std::string text = " " + std::string(texts.text);
    const std::string seen = " " + std::string(texts.seen);
    return run_step(step + 1, {text, seen}, run);
  }
  return current.behavior == SplitBehavior::kIsolated ? run_isolated(step, texts, run)
                                                      : run_split(step, texts, run);
}

// The common case, without a list of parts; `invert` changes nothing here.
Expected<void> PreTokenizer::run_isolated(size_t step, Texts texts, Run& run) const {
  size_t done = 0;
  const auto send = [&](size_t begin, size_t end) {
    return run_step(step + 1,
                    {texts.text.substr(begin, end - begin), texts.seen.substr(begin, end - begin)},
                    run);
  };
  const auto on_match = [&](Range match) -> Expected<void> {
    TANDEM_TRY(send(done, match.begin));
    done = match.end;
    return send(match.begin, match.end);
  };
  TANDEM_TRY(for_each_match(steps_[step].regex[0], texts.seen, run.scratch, on_match));
  return send(done, texts.text.size());
}

Expected<void> PreTokenizer::run_split(size_t step, Texts texts, Run& run) const {
  const Step& current = steps_[step];
  std::vector<Part> parts;
  size_t done = 0;
  const auto on_match = [&](Range match) -> Expected<void> {
    if (done != match.begin) parts.push_back({{done, match.begin}, current.invert});
    parts.push_back({match, !current.invert});
    done = match.end;
    return {};
  };
  TANDEM_TRY(for_each_match(current.regex[0], texts.seen, run.scratch, on_match));
  if (done != texts.text.size()) parts.push_back({{done, texts.text.size()}, current.invert});
  merge_parts(parts, current.behavior);
  for (const Part& part : parts) {
    const size_t length = part.range.end - part.range.begin;
    TANDEM_TRY(run_step(
        step + 1,
        {texts.text.substr(part.range.begin, length), texts.seen.substr(part.range.begin, length)},
        run));
  }
  return {};
}

void PreTokenizer::merge_parts(std::vector<Part>& parts, SplitBehavior behavior) {
  if (behavior == SplitBehavior::kRemoved) {
    std::erase_if(parts, [](const Part& part) { return part.is_match; });
    return;
  }
  const bool backwards = behavior == SplitBehavior::kMergedWithNext;
  if (backwards) std::reverse(parts.begin(), parts.end());
  std::vector<Part> merged;
  bool previous_match = false;
  for (const Part& part : parts) {
    const bool joins = behavior == SplitBehavior::kContiguous ? part.is_match == previous_match
                                                              : part.is_match && !previous_match;
    if (joins && !merged.empty()) {
      Range& last = merged.back().range;
      (backwards ? last.begin : last.end) = backwards ? part.range.begin : part.range.end;
    } else {
      merged.push_back(part);
    }
    previous_match = part.is_match;
  }
  if (backwards) std::reverse(merged.begin(), merged.end());
  parts = std::move(merged);
}

}  // namespace tandem::text
