#pragma once
// Python's string operations on marked text: what is cut out keeps its marks, what is put in place
// of untrusted text is untrusted. Shared by filters and methods.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "text/marked_text.h"

namespace tandem::text::jinja {

enum class Side { kLeft, kRight, kBoth };

size_t code_points_of(std::string_view text);

// strip(): of blanks, or of the characters of `chars` if that is not null.
MarkedText strip(const MarkedText& text, Side side, const MarkedText* chars);

// A split stops once it has more parts than this: the caller checks. (A part costs far more memory
// than the byte between two separators.)
constexpr size_t kMaxParts = 1 << 21;

// split(separator, most): at most `most` cuts, -1 for all; from the right with `from_right`.
// `separator` is not empty.
std::vector<MarkedText> split(const MarkedText& text,
                              std::string_view separator,
                              int64_t most,
                              bool from_right);
// split(): at runs of blanks, no empty parts.
std::vector<MarkedText> split_blanks(const MarkedText& text, int64_t most, bool from_right);
std::vector<MarkedText> split_lines(const MarkedText& text, bool keep_ends);

// replace(old, by, most): at most `most` times, -1 for all.
MarkedText replace(const MarkedText& text,
                   std::string_view old,
                   const MarkedText& by,
                   int64_t most);

// Each character through `map(out, character)`, with its mark.
MarkedText map_characters(const MarkedText& text,
                          const std::function<void(std::string&, char32_t)>& map);
MarkedText to_upper(const MarkedText& text);
MarkedText to_lower(const MarkedText& text);
// str.capitalize and str.title.
MarkedText capitalize(const MarkedText& text);
MarkedText title(const MarkedText& text);

// & < > ' " as HTML entities.
MarkedText escape_html(const MarkedText& text);

// Padded with `fill` to `width` characters.
MarkedText justify(const MarkedText& text, size_t width, Side text_side, std::string_view fill);

// The first `count` characters.
MarkedText first_characters(const MarkedText& text, size_t count);

}  // namespace tandem::text::jinja
