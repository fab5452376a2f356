#include "text/normalizer.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"
#include "text/newer_unicode.h"

namespace tandem::text {
namespace {

struct StepRunner {
  MarkedText text;
  RegexScratch& scratch;

  Expected<MarkedText> operator()(NormalForm form) { return normalize(text, form); }

  Expected<MarkedText> operator()(const PrependStep& step) {
    if (text.empty()) return std::move(text);
    MarkedText out(step.text, false);
    out.append(text);
    return out;
  }

  Expected<MarkedText> operator()(const ReplaceStep& step) {
    const auto folded = fold_newer_code_points(text.text());
    const std::string_view seen = folded ? std::string_view(*folded) : text.text();
    MarkedText out;
    size_t done = 0;
    for (size_t from = 0; from <= seen.size();) {
      TANDEM_ASSIGN(const Range match, step.pattern.find(seen, from, scratch));
      if (!Regex::found(match)) break;
      if (match.begin == match.end) {  // nothing is replaced by something nowhere
        from = match.end + std::max<size_t>(1, utf8_sequence_length(seen.substr(match.end)));
        continue;
      }
      out.append(text, done, match.begin);
      out.append(step.by, text.touches(match.begin, match.end));
      from = done = match.end;
    }
    out.append(text, done, text.size());
    return out;
  }

  Expected<MarkedText> operator()(const LowercaseStep&) {
    MarkedText out;
    std::string lower;
    for (size_t i = 0; i < text.size();) {
      const CodePoint c = utf8_decode(std::string_view(text.text()).substr(i));
      if (c.length == 0) break;  // valid UTF-8 is the caller's promise
      lower.clear();
      append_lower(lower, c.value);
      out.append(lower, text.touches(i, i + c.length));
      i += c.length;
    }
    return out;
  }

  Expected<MarkedText> operator()(const StripStep& step) {
    const std::string_view s = text.text();
    size_t begin = 0;
    size_t end = s.size();
    while (step.left && begin < end) {
      const CodePoint c = utf8_decode(s.substr(begin));
      if (c.length == 0 || !is_white_space(c.value)) break;
      begin += c.length;
    }
    while (step.right && end > begin) {
      size_t last = end - 1;
      while (last > begin && (static_cast<unsigned char>(s[last]) & 0xC0) == 0x80) --last;
      if (!is_white_space(utf8_decode(s.substr(last)).value)) break;
      end = last;
    }
    return text.slice(begin, end);
  }
};

}  // namespace

Expected<MarkedText> Normalizer::run(MarkedText text,
                                     size_t max_bytes,
                                     RegexScratch& scratch) const {
  for (const NormalizerStep& step : steps_) {
    TANDEM_ASSIGN(text, std::visit(StepRunner{std::move(text), scratch}, step));
    if (text.size() > max_bytes) {
      return fail(ErrorCode::kInvalidArgument,
                  "the text has more than {} bytes after normalization",
                  max_bytes);
    }
  }
  return text;
}

}  // namespace tandem::text
