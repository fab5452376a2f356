#include "net/http_message.h"

#include <algorithm>
#include <array>

namespace tandem::net {
namespace {

constexpr std::string_view kTokenSymbols = "!#$%&'*+-.^_`|~";  // RFC 9110 §5.6.2
constexpr size_t kMaxRequestIdBytes = 128;

bool is_alphanumeric(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

std::optional<std::string_view> find_header(const Headers& headers, std::string_view lower_name) {
  for (const Header& header : headers)
    if (header.name == lower_name) return header.value;
  return std::nullopt;
}

size_t count_headers(const Headers& headers, std::string_view lower_name) {
  return static_cast<size_t>(std::count_if(
      headers.begin(), headers.end(), [&](const Header& h) { return h.name == lower_name; }));
}

std::string_view Request::path_param(std::string_view name) const {
  for (const PathParam& param : path_params)
    if (param.name == name) return param.value;
  return {};
}

std::string_view reason_phrase(int status) {
  struct Entry {
    int status;
    std::string_view phrase;
  };
  // RFC 9110 §15, RFC 6585, RFC 4918; 499 is nginx's "client closed request".
  static constexpr std::array kPhrases{Entry{100, "Continue"},
                                       Entry{200, "OK"},
                                       Entry{201, "Created"},
                                       Entry{202, "Accepted"},
                                       Entry{204, "No Content"},
                                       Entry{206, "Partial Content"},
                                       Entry{301, "Moved Permanently"},
                                       Entry{302, "Found"},
                                       Entry{304, "Not Modified"},
                                       Entry{307, "Temporary Redirect"},
                                       Entry{308, "Permanent Redirect"},
                                       Entry{400, "Bad Request"},
                                       Entry{401, "Unauthorized"},
                                       Entry{403, "Forbidden"},
                                       Entry{404, "Not Found"},
                                       Entry{405, "Method Not Allowed"},
                                       Entry{406, "Not Acceptable"},
                                       Entry{408, "Request Timeout"},
                                       Entry{409, "Conflict"},
                                       Entry{410, "Gone"},
                                       Entry{411, "Length Required"},
                                       Entry{413, "Content Too Large"},
                                       Entry{414, "URI Too Long"},
                                       Entry{415, "Unsupported Media Type"},
                                       Entry{417, "Expectation Failed"},
                                       Entry{422, "Unprocessable Content"},
                                       Entry{429, "Too Many Requests"},
                                       Entry{431, "Request Header Fields Too Large"},
                                       Entry{499, "Client Closed Request"},
                                       Entry{500, "Internal Server Error"},
                                       Entry{501, "Not Implemented"},
                                       Entry{502, "Bad Gateway"},
                                       Entry{503, "Service Unavailable"},
                                       Entry{504, "Gateway Timeout"},
                                       Entry{505, "HTTP Version Not Supported"}};
  for (const Entry& entry : kPhrases)
    if (entry.status == status) return entry.phrase;
  return "Unknown";
}

bool is_token(std::string_view text) {
  if (text.empty()) return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return is_alphanumeric(c) || kTokenSymbols.find(c) != std::string_view::npos;
  });
}

std::string to_lower_ascii(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), lower);
  return out;
}

std::string_view trim_blanks(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

bool equals_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(
      a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return lower(x) == lower(y); });
}

std::vector<std::string> list_elements(const Headers& headers, std::string_view lower_name) {
  std::vector<std::string> out;
  for (const Header& header : headers) {
    if (header.name != lower_name) continue;
    std::string_view rest = header.value;
    while (!rest.empty()) {
      const size_t comma = std::min(rest.find(','), rest.size());
      const std::string_view element = trim_blanks(rest.substr(0, comma));
      if (!element.empty()) out.push_back(to_lower_ascii(element));
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
  }
  return out;
}

bool is_valid_request_id(std::string_view id) {
  if (id.empty() || id.size() > kMaxRequestIdBytes) return false;
  return std::all_of(id.begin(), id.end(), [](char c) {
    return is_alphanumeric(c) || c == '.' || c == '_' || c == ':' || c == '-';
  });
}

}  // namespace tandem::net
