#pragma once
// The request target (RFC 9112 §3.2) made canonical, once, before routing and before any check of
// keys, so that no two parts of the program read one path differently.

#include <string>
#include <string_view>

#include "base/error.h"

namespace tandem::net {

struct Target {
  std::string path;       // begins with "/", percent-decoded; or "*"
  std::string query;      // raw, without "?"
  std::string authority;  // of the absolute form, lower case; else empty
};

// Errors (kInvalidArgument): characters outside visible ASCII, "#", a wrong percent escape, an
// encoded "/", "\" or control character, "\", empty, "." or ".." segments (a single "/" at the end
// is a path of its own), decoded text that is not UTF-8, a form other than origin, absolute
// (http or https) or "*".
Expected<Target> parse_target(std::string_view text);

// A Host field: name or IPv4 of [A-Za-z0-9._-], or [IPv6], and an optional port of 1 to 5 digits.
bool is_valid_host(std::string_view host);

// The percent-decoded value of the first `name=value` of a raw query ("+" is a blank); empty when
// absent or wrongly encoded.
std::string query_value(std::string_view query, std::string_view name);

}  // namespace tandem::net
