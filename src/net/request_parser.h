#pragma once
// Incremental, strict HTTP/1.x request parser (RFC 9112): bytes in, one request at a time out. No
// sockets, no clock; the result does not depend on how the bytes are cut. Written by hand, because
// what must be refused here (bare LF, folded lines, doubled lengths, floods of headers, chunks and
// extensions, each with its own limit and status) is what common parsers let through.
// One owner, one thread. Throws nothing but bad_alloc; memory is bounded by the limits.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "net/http_limits.h"
#include "net/http_message.h"
#include "net/target.h"

namespace tandem::net {

struct RequestHead {
  std::string method;
  Target target;
  int version_minor = 1;
  std::string host;  // lower case; empty only in HTTP/1.0
  Headers headers;
  std::optional<uint64_t> content_length;
  bool chunked = false;
  bool keep_alive = true;
  bool expects_continue = false;     // the client waits for "100 Continue" before it sends the body
  bool unknown_expectation = false;  // another Expect: 417

  bool has_body() const { return chunked || content_length.value_or(0) > 0; }
};

struct ParseError {
  int status = 400;
  const char* reason = "";
};

class RequestParser {
 public:
  enum class State { kHead, kHeadDone, kBody, kDone, kError };

  // `limits` outlives the parser.
  explicit RequestParser(const HttpLimits& limits) : limits_(limits) {}

  // Takes bytes until it needs more or reaches kHeadDone, kDone or kError; the number taken. Takes
  // none in those three states.
  size_t feed(std::string_view input);

  // In kHeadDone: go on to the body (kBody, or kDone if there is none). A body that is not kept is
  // counted and checked all the same, but not stored.
  void continue_to_body(bool keep);

  // Ready for the next request.
  void reset();

  State state() const { return state_; }
  const ParseError& error() const { return error_; }   // in kError
  bool started() const { return started_; }            // any byte of this request seen
  RequestHead& head() { return head_; }                // complete from kHeadDone on
  std::string& body() { return body_; }                // complete in kDone
  uint64_t body_bytes() const { return body_bytes_; }  // received, kept or not

 private:
  enum class Stage { kRequestLine, kHeaders, kFixed, kChunkSize, kChunkData, kChunkEnd, kTrailers };
  enum class LineResult { kMore, kLine, kRefused };

  LineResult take_line(std::string_view input, size_t& position, ParseError too_long);
  void feed_head(std::string_view input, size_t& position);
  void feed_body(std::string_view input, size_t& position);
  void feed_chunk_size(std::string_view input, size_t& position);
  void feed_trailers(std::string_view input, size_t& position);
  void take_body_bytes(std::string_view input, size_t& position);
  void check_garbage();
  void parse_request_line();
  bool parse_header_line(Headers* out);
  void finish_head();
  bool check_host();
  bool check_length();
  bool check_transfer_encoding();
  void refuse(int status, const char* reason);

  const HttpLimits& limits_;
  State state_ = State::kHead;
  Stage stage_ = Stage::kRequestLine;
  ParseError error_;
  bool started_ = false;
  bool keep_body_ = true;
  bool saw_cr_ = false;
  int blank_lines_ = 0;
  std::string line_;
  size_t header_bytes_ = 0;
  size_t header_count_ = 0;
  size_t line_budget_ = 0;
  RequestHead head_;
  std::string body_;
  uint64_t body_bytes_ = 0;
  uint64_t remaining_ = 0;  // of the fixed body or of the chunk
  size_t chunks_ = 0;
  size_t extension_bytes_ = 0;
};

}  // namespace tandem::net
