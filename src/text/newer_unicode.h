#pragma once
// PCRE2 10.42 knows Unicode 14; the reference tokenizers' engine (Oniguruma) knows Unicode 16. A
// pattern run on a text that holds younger code points would split it elsewhere. So the text that
// the regex sees has each of them replaced by an older code point of the same general category and
// the same length in UTF-8: offsets stay, classes fit, patterns are not touched.
// Also here: U+180E, which PCRE2's \s takes for a blank and Oniguruma's does not.

#include <optional>
#include <string>
#include <string_view>

namespace tandem::text {

// The text for the regex, or nullopt where it is `text` itself (nearly always). `text` is valid
// UTF-8. Any thread.
std::optional<std::string> fold_newer_code_points(std::string_view text);

}  // namespace tandem::text
