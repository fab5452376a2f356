// Chunked bodies. Input: one byte for the size of the pieces, then a body as a client sends it,
// which must be refused or decoded within the limits, however it is cut; and the same bytes as
// data, which must come back whole when they are properly chunked.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "fuzz_input.h"
#include "net/request_parser.h"

namespace {

using tandem::net::HttpLimits;
using tandem::net::RequestParser;

constexpr std::string_view kHead =
    "POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";

HttpLimits small_limits() {
  HttpLimits limits;
  limits.max_body_bytes = 8192;
  limits.max_chunks = 512;
  limits.max_chunk_line_bytes = 40;
  limits.max_chunk_extension_bytes = 200;
  limits.max_header_count = 8;
  limits.max_header_bytes = 400;
  return limits;
}

struct Outcome {
  RequestParser::State state;
  int status;
  std::string body;
  size_t left;  // bytes after the request; 0 unless it is complete
  bool operator==(const Outcome&) const = default;
};

Outcome decode(std::string_view body, size_t piece, const HttpLimits& limits) {
  RequestParser parser(limits);
  TANDEM_CHECK(parser.feed(kHead) == kHead.size());
  TANDEM_CHECK(parser.state() == RequestParser::State::kHeadDone);
  parser.continue_to_body(true);
  while (!body.empty() && parser.state() == RequestParser::State::kBody)
    body.remove_prefix(parser.feed(body.substr(0, piece)));
  TANDEM_CHECK(parser.body().size() <= limits.max_body_bytes);
  TANDEM_CHECK(parser.body().size() == parser.body_bytes());
  const bool done = parser.state() == RequestParser::State::kDone;
  return {parser.state(), parser.error().status, parser.body(), done ? body.size() : 0};
}

std::string encode(std::string_view data, size_t chunk) {
  std::string out;
  for (; !data.empty(); data.remove_prefix(std::min(chunk, data.size()))) {
    const std::string_view part = data.substr(0, chunk);
    out += fmt::format("{:x}\r\n{}\r\n", part.size(), part);
  }
  return out + "0\r\n\r\n";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const HttpLimits kLimits = small_limits();
  tandem::fuzz::FuzzInput input(data, size);
  const size_t piece = 1 + input.byte() % 61;
  const Outcome whole = decode(input.rest(), std::string_view::npos, kLimits);
  TANDEM_CHECK(whole == decode(input.rest(), piece, kLimits),
               "the result depends on how the bytes are cut");

  const std::string_view content = input.rest().substr(0, kLimits.max_body_bytes);
  const size_t chunk = std::max(piece, content.size() / kLimits.max_chunks + 1);
  const Outcome round_trip = decode(encode(content, chunk), piece, kLimits);
  TANDEM_CHECK(round_trip.state == RequestParser::State::kDone && round_trip.body == content);
  return 0;
}
