#pragma once
// HTTP messages as plain values, shared by server and client. No sockets, no Boost.
// Values: whoever holds one owns it; use from one thread at a time.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::net {

// `name` is lower-case in everything that the server or client hands out.
struct Header {
  std::string name;
  std::string value;
};
using Headers = std::vector<Header>;

// The first header of that name (`lower_name` in lower case), or nullopt. The view lives as long as
// `headers` is not changed.
std::optional<std::string_view> find_header(const Headers& headers, std::string_view lower_name);
size_t count_headers(const Headers& headers, std::string_view lower_name);

// A segment of the path that a route's pattern names: "/v1/models/{id}".
struct PathParam {
  std::string name;
  std::string value;
};

// The address of the socket's peer, never of a forwarding header. IPv4 addresses that arrive on an
// IPv6 socket are given as IPv4.
struct PeerAddress {
  std::string ip;
  uint16_t port = 0;
};

// A whole request, checked: see request_parser.h and target.h for what is refused before.
struct Request {
  std::string method;  // as sent; methods are case-sensitive
  std::string path;    // decoded once and canonical: no "//", "." or ".." segments; or "*"
  std::string query;   // raw, without "?"
  std::string host;    // the Host field, lower case; empty only in HTTP/1.0
  Headers headers;     // names in lower case, values without outer blanks, in order
  std::string body;    // without transfer coding
  std::vector<PathParam> path_params;
  PeerAddress peer;
  // The client's x-request-id if it is 1..128 of [A-Za-z0-9._:-], else a random one. A label for
  // logs and answers, never a key.
  std::string request_id;
  int version_minor = 1;  // HTTP/1.<this>

  std::optional<std::string_view> header(std::string_view lower_name) const {
    return find_header(headers, lower_name);
  }
  // Empty when the route's pattern has no such name.
  std::string_view path_param(std::string_view name) const;
};

// What outlives the request for the sake of its answer: hooks and logs. All empty for a request
// that could not be parsed.
struct RequestSummary {
  std::string method;
  std::string path;
  std::string route;   // the pattern that the path matched; empty: none, or not looked for
  std::string origin;  // the Origin header
  std::string request_id;
};

// `content-length`, `transfer-encoding`, `connection` and `date` are set by the server; such
// headers given here are left out.
struct Response {
  int status = 200;
  Headers headers;
  std::string body;
  bool close = false;  // close the connection after this answer
};

// "Not Found" for 404; "Unknown" for a status without a name.
std::string_view reason_phrase(int status);

// RFC 9110 token characters; a header name or method is 1 or more of them.
bool is_token(std::string_view text);
std::string to_lower_ascii(std::string_view text);
std::string_view trim_blanks(std::string_view text);  // SP and HTAB
bool equals_ignoring_case(std::string_view a, std::string_view b);

// Comma-separated elements of all headers of that name, trimmed and lower-case, empty ones left
// out.
std::vector<std::string> list_elements(const Headers& headers, std::string_view lower_name);

// Whether a client's x-request-id may be used as a label.
bool is_valid_request_id(std::string_view id);

}  // namespace tandem::net
