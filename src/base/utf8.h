#pragma once
// Well-formed UTF-8 (Unicode 15, table 3-7): no overlong forms, no surrogates, nothing above
// U+10FFFF.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tandem {

// Length in bytes (1..4) of the well-formed sequence at the start of `text`; 0 if there is none.
size_t utf8_sequence_length(std::string_view text);

// The code point at the start of `text` and its length; length 0 if ill-formed.
struct CodePoint {
  char32_t value = 0;
  size_t length = 0;
};
CodePoint utf8_decode(std::string_view text);

void utf8_append(std::string& out, char32_t code_point);

// Whether `text` is a proper, non-empty beginning of a well-formed sequence (1 to 3 bytes that wait
// for more).
bool utf8_is_incomplete_prefix(std::string_view text);

bool utf8_is_valid(std::string_view text);

// Ill-formed parts become U+FFFD, one for each maximal subpart (the WHATWG decoder's rule, also
// Python's errors="replace").
std::string utf8_replace_invalid(std::string_view text);

}  // namespace tandem
