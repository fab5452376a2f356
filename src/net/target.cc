#include "net/target.h"

#include <algorithm>
#include <optional>

#include "base/utf8.h"
#include "net/http_message.h"

namespace tandem::net {
namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::unexpected<Error> bad_target(const char* why) {
  return fail(ErrorCode::kInvalidArgument, "the request target {}", why);
}

// nullopt: a "%" without two hexadecimal digits.
std::optional<std::string> percent_decode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i]);
      continue;
    }
    if (text.size() - i < 3) return std::nullopt;
    const int high = hex_value(text[i + 1]);
    const int low = hex_value(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    out.push_back(static_cast<char>(high * 16 + low));
    i += 2;
  }
  return out;
}

Expected<std::string> decode_segment(std::string_view raw) {
  std::optional<std::string> segment = percent_decode(raw);
  if (!segment) return bad_target("has a wrong percent escape");
  for (const char c : *segment) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '/' || c == '\\') return bad_target("has an encoded slash or a backslash");
    if (byte < 0x20 || byte == 0x7f) return bad_target("has an encoded control character");
  }
  if (*segment == "." || *segment == "..") return bad_target("has a dot segment");
  if (!utf8_is_valid(*segment)) return bad_target("is not UTF-8");
  return std::move(*segment);
}

// `raw` begins with "/".
Expected<std::string> decode_path(std::string_view raw) {
  std::string path;
  path.reserve(raw.size());
  while (!raw.empty()) {
    raw.remove_prefix(1);
    const size_t slash = std::min(raw.find('/'), raw.size());
    // Only the last segment may be empty.
    if (slash == 0 && !raw.empty()) return bad_target("has an empty path segment");
    TANDEM_ASSIGN(const std::string segment, decode_segment(raw.substr(0, slash)));
    path.push_back('/');
    path += segment;
    raw.remove_prefix(slash);
  }
  return path;
}

// Takes "http://authority" off the front.
Expected<std::string> take_authority(std::string_view& text) {
  const size_t scheme_end = text.find("://");
  if (scheme_end == std::string_view::npos) return bad_target("is no path");
  const std::string_view scheme = text.substr(0, scheme_end);
  if (!equals_ignoring_case(scheme, "http") && !equals_ignoring_case(scheme, "https"))
    return bad_target("has a scheme other than http");
  text.remove_prefix(scheme_end + 3);
  const size_t end = std::min(text.find_first_of("/?"), text.size());
  std::string authority = to_lower_ascii(text.substr(0, end));
  if (!is_valid_host(authority)) return bad_target("has a wrong authority");
  text.remove_prefix(end);
  return authority;
}

}  // namespace

Expected<Target> parse_target(std::string_view text) {
  Target target;
  if (text == "*") {
    target.path = "*";
    return target;
  }
  for (const char c : text)
    if (c <= 0x20 || c >= 0x7f || c == '#')  // also negative: bytes from 0x80
      return bad_target("has a character that must be percent-encoded");
  if (!text.starts_with('/')) {
    TANDEM_ASSIGN(target.authority, take_authority(text));
  }
  const size_t question = std::min(text.find('?'), text.size());
  const std::string_view raw_path = text.substr(0, question);
  if (question < text.size()) target.query = text.substr(question + 1);
  TANDEM_ASSIGN(target.path, decode_path(raw_path.empty() ? std::string_view("/") : raw_path));
  return target;
}

bool is_valid_host(std::string_view host) {
  size_t end = 0;
  if (host.starts_with('[')) {
    end = host.find(']');
    if (end == std::string_view::npos || end < 3) return false;
    const std::string_view address = host.substr(1, end - 1);
    if (!std::all_of(address.begin(), address.end(), [](char c) {
          return hex_value(c) >= 0 || c == ':' || c == '.';
        }))
      return false;
    ++end;
  } else {
    end = std::min(host.find(':'), host.size());
    const std::string_view name = host.substr(0, end);
    if (name.empty() || !std::all_of(name.begin(), name.end(), [](char c) {
          return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
                 c == '-' || c == '_';
        }))
      return false;
  }
  host.remove_prefix(end);
  if (host.empty()) return true;
  if (host[0] != ':') return false;
  host.remove_prefix(1);
  return !host.empty() && host.size() <= 5 && std::all_of(host.begin(), host.end(), is_digit);
}

std::string query_value(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const size_t end = std::min(query.find('&'), query.size());
    const std::string_view pair = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    const size_t equals = std::min(pair.find('='), pair.size());
    if (pair.substr(0, equals) != name) continue;
    std::string value(pair.substr(std::min(equals + 1, pair.size())));
    std::replace(value.begin(), value.end(), '+', ' ');
    return percent_decode(value).value_or("");
  }
  return {};
}

}  // namespace tandem::net
