#pragma once
// What tokenizers and templates need of Unicode, over utf8proc (Unicode 15): normal forms, case,
// character classes as Python's `str` has them. Texts are valid UTF-8. Any thread.

#include <string>
#include <string_view>

#include "base/utf8.h"
#include "text/marked_text.h"

namespace tandem::text {

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

// Linear in the text's length but for runs of combining marks, which cost n log n.
// Marks: a changed stretch is untrusted if any part of its source is.
MarkedText normalize(const MarkedText& text, NormalForm form);

// Whether `c` may stand unlooked-at in a text in this form: it is its own normal form, and combines
// neither with what stands before it nor, unless what follows is not safe, with what follows.
bool is_normalization_safe(char32_t c, NormalForm form);

// Unicode's White_Space property (Rust's char::is_whitespace).
bool is_white_space(char32_t c);
// Python's str.isspace: White_Space and U+001C..U+001F.
bool is_python_space(char32_t c);
// Python's repr() prints it as it is.
bool is_printable(char32_t c);
bool is_letter(char32_t c);
bool is_decimal(char32_t c);
bool is_numeric(char32_t c);
// What Unicode calls cased; a title word goes on while letters are cased.
bool is_upper(char32_t c);
bool is_lower(char32_t c);
bool is_cased(char32_t c);

// Rust's \w: Alphabetic (approximated by categories), marks, Nd, Pc, the two joiners.
bool is_word(char32_t c);

// Full mappings, as Python's upper(), lower() and title() have them for one character (final sigma
// and a few Greek letters with three marks excepted).
void append_upper(std::string& out, char32_t c);
void append_lower(std::string& out, char32_t c);
void append_title(std::string& out, char32_t c);

}  // namespace tandem::text
