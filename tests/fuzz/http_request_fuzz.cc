// net::RequestParser: any bytes, cut at any place, give the same requests; nothing passes a limit.
// Input: one byte for the size of the pieces, then what a client sends.
#include <string>
#include <vector>

#include "fuzz_input.h"
#include "net/request_parser.h"

namespace {

using tandem::net::HttpLimits;
using tandem::net::RequestParser;

HttpLimits small_limits() {
  HttpLimits limits;
  limits.max_request_line_bytes = 200;
  limits.max_header_bytes = 1000;
  limits.max_header_count = 16;
  limits.max_body_bytes = 4096;
  limits.max_chunks = 64;
  limits.max_chunk_line_bytes = 40;
  limits.max_chunk_extension_bytes = 100;
  return limits;
}

void check_head(const tandem::net::RequestHead& head, const HttpLimits& limits) {
  TANDEM_CHECK(!head.method.empty() && !head.target.path.empty());
  TANDEM_CHECK(head.target.path == "*" || head.target.path.starts_with('/'));
  TANDEM_CHECK(head.target.path.find("//") == std::string::npos);
  TANDEM_CHECK(head.headers.size() <= limits.max_header_count);
  TANDEM_CHECK(head.version_minor == 0 || !head.host.empty());
  TANDEM_CHECK(!(head.chunked && head.content_length));
  size_t bytes = 0;
  for (const auto& header : head.headers) {
    TANDEM_CHECK(tandem::net::is_token(header.name));
    TANDEM_CHECK(header.value.find_first_of(std::string_view("\r\n\0", 3)) == std::string::npos);
    bytes += header.name.size() + header.value.size();
  }
  TANDEM_CHECK(bytes <= limits.max_header_bytes);
}

// Everything that the bytes mean, as text.
std::string read_all(std::string_view input, size_t piece, const HttpLimits& limits) {
  RequestParser parser(limits);
  std::string out;
  while (true) {
    const std::string_view part = input.substr(0, piece);
    input.remove_prefix(parser.feed(part));
    switch (parser.state()) {
      case RequestParser::State::kHeadDone:
        check_head(parser.head(), limits);
        out += parser.head().method + " " + parser.head().target.path + "?" +
               parser.head().target.query + "\n";
        for (const auto& header : parser.head().headers)
          out += header.name + ": " + header.value + "\n";
        parser.continue_to_body(true);
        break;
      case RequestParser::State::kError:
        TANDEM_CHECK(parser.error().status >= 400 && parser.error().status < 600);
        return out + std::to_string(parser.error().status) + " " + parser.error().reason;
      default:
        break;
    }
    TANDEM_CHECK(parser.body().size() <= limits.max_body_bytes);
    if (parser.state() == RequestParser::State::kDone) {
      out += parser.body() + "\n";
      parser.reset();
    }
    if (input.empty()) return out + "...";
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const HttpLimits kLimits = small_limits();
  tandem::fuzz::FuzzInput input(data, size);
  const size_t piece = 1 + input.byte() % 61;
  const std::string whole = read_all(input.rest(), std::string_view::npos, kLimits);
  const std::string cut = read_all(input.rest(), piece, kLimits);
  TANDEM_CHECK(whole == cut, "the result depends on how the bytes are cut");
  return 0;
}
