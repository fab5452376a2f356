#pragma once
// Patterns of tokenizer.json are written for Oniguruma's Ruby syntax. This says them in PCRE2's, or
// refuses by name what the two understand differently.

#include <string>
#include <string_view>

#include "base/error.h"

namespace tandem::text {

// Errors: kUnsupported, naming the construct: class set operations (&&, --, a nested '['),
// back-references, \b, \h, \Q, inline flags other than i, recursion, conditions, callouts, verbs.
Expected<std::string> to_pcre2_pattern(std::string_view pattern);

// A pattern that matches exactly `literal`.
std::string escape_pattern(std::string_view literal);

}  // namespace tandem::text
