#include "net/request_parser.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace tandem::net {
namespace {

constexpr size_t kMaxMethodBytes = 32;
constexpr int kMaxBlankLinesBeforeRequest = 2;  // RFC 9112 §2.2: at least one should be ignored
constexpr size_t kFirstBodyReserve = 64 * 1024;

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\t') || byte == 0x7f;
}

bool all_digits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

void RequestParser::refuse(int status, const char* reason) {
  state_ = State::kError;
  error_ = {status, reason};
}

void RequestParser::reset() {
  state_ = State::kHead;
  stage_ = Stage::kRequestLine;
  error_ = {};
  started_ = false;
  keep_body_ = true;
  saw_cr_ = false;
  blank_lines_ = 0;
  line_.clear();
  line_.shrink_to_fit();
  header_bytes_ = header_count_ = 0;
  head_ = {};
  body_ = {};
  body_bytes_ = remaining_ = 0;
  chunks_ = extension_bytes_ = 0;
}

size_t RequestParser::feed(std::string_view input) {
  size_t position = 0;
  while (position < input.size()) {
    if (state_ == State::kHead)
      feed_head(input, position);
    else if (state_ == State::kBody)
      feed_body(input, position);
    else
      break;
  }
  return position;
}

// Appends to line_ until CRLF. `line_budget_` is what the line may hold.
RequestParser::LineResult RequestParser::take_line(std::string_view input,
                                                   size_t& position,
                                                   ParseError too_long) {
  while (position < input.size()) {
    const char c = input[position++];
    if (saw_cr_) {
      saw_cr_ = false;
      if (c == '\n') return LineResult::kLine;
      refuse(400, "a carriage return without a line feed");
      return LineResult::kRefused;
    }
    if (c == '\r') {
      saw_cr_ = true;
      continue;
    }
    if (is_control(c)) {
      refuse(400, c == '\n' ? "a line feed without a carriage return" : "a control character");
      return LineResult::kRefused;
    }
    if (line_.size() >= line_budget_) {
      refuse(too_long.status, too_long.reason);
      return LineResult::kRefused;
    }
    line_.push_back(c);
  }
  return LineResult::kMore;
}

void RequestParser::feed_head(std::string_view input, size_t& position) {
  started_ = true;
  if (stage_ == Stage::kRequestLine) {
    line_budget_ = limits_.max_request_line_bytes;
    const LineResult result =
        take_line(input, position, {414, "the request line is longer than the limit"});
    // Whatever came of it, so that the answer does not depend on how the bytes are cut.
    check_garbage();
    if (result != LineResult::kLine || state_ == State::kError) return;
    if (!line_.empty())
      parse_request_line();
    else if (++blank_lines_ > kMaxBlankLinesBeforeRequest)
      refuse(400, "blank lines instead of a request");
    else
      started_ = false;
    line_.clear();
    return;
  }
  line_budget_ = limits_.max_header_bytes - header_bytes_;
  const LineResult result =
      take_line(input, position, {431, "the headers are larger than the limit"});
  if (result != LineResult::kLine) return;
  if (line_.empty()) return finish_head();
  if (parse_header_line(&head_.headers)) line_.clear();
}

// A client that speaks another protocol may never send a line end.
void RequestParser::check_garbage() {
  const size_t blank = line_.find(' ');
  const std::string_view method = std::string_view(line_).substr(0, blank);
  if (!line_.empty() && (!is_token(method) || method.size() > kMaxMethodBytes))
    refuse(400, "not an HTTP request");
}

void RequestParser::parse_request_line() {
  const std::string_view line = line_;
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last)
    return refuse(400, "the request line is not 'METHOD target HTTP/1.1'");
  const std::string_view method = line.substr(0, first);  // checked by check_garbage()
  const std::string_view target = line.substr(first + 1, last - first - 1);
  const std::string_view version = line.substr(last + 1);
  if (method == "PRI") return refuse(400, "HTTP/2 is not spoken here");
  const bool is_version = version.size() == 8 && version.starts_with("HTTP/") &&
                          all_digits(version.substr(5, 1)) && version[6] == '.' &&
                          all_digits(version.substr(7, 1));
  if (!is_version) return refuse(400, "the request line does not end in an HTTP version");
  if (version != "HTTP/1.1" && version != "HTTP/1.0")
    return refuse(505, "only HTTP/1.1 and HTTP/1.0 are spoken here");
  auto parsed = parse_target(target);
  if (!parsed) return refuse(400, "the request target is malformed or not in its canonical form");
  if (parsed->path == "*" && method != "OPTIONS")
    return refuse(400, "'*' is a target of OPTIONS only");
  head_.method = method;
  head_.target = std::move(*parsed);
  head_.version_minor = version == "HTTP/1.1" ? 1 : 0;
  head_.keep_alive = head_.version_minor == 1;
  stage_ = Stage::kHeaders;
}

// Of headers and trailers; trailers are checked and thrown away (out = nullptr).
bool RequestParser::parse_header_line(Headers* out) {
  constexpr size_t kSeparatorBytes = 4;  // ": " and CRLF
  header_bytes_ +=
      std::min(line_.size() + kSeparatorBytes, limits_.max_header_bytes - header_bytes_);
  if (++header_count_ > limits_.max_header_count)
    return refuse(431, "more header fields than the limit"), false;
  const std::string_view line = line_;
  if (line.front() == ' ' || line.front() == '\t')
    return refuse(400, "a folded header line"), false;
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || !is_token(line.substr(0, colon)))
    return refuse(400, "a header line is not 'name: value'"), false;
  if (out)
    out->push_back(
        {to_lower_ascii(line.substr(0, colon)), std::string(trim_blanks(line.substr(colon + 1)))});
  return true;
}

void RequestParser::finish_head() {
  line_.clear();
  if (!check_host() || !check_transfer_encoding() || !check_length()) return;
  for (const std::string& option : list_elements(head_.headers, "connection"))
    if (option == "close") head_.keep_alive = false;
  if (head_.version_minor == 1) {
    for (const std::string& expectation : list_elements(head_.headers, "expect"))
      (expectation == "100-continue" ? head_.expects_continue : head_.unknown_expectation) = true;
  }
  state_ = State::kHeadDone;
}

bool RequestParser::check_host() {
  const size_t count = count_headers(head_.headers, "host");
  if (count > 1) return refuse(400, "more than one Host"), false;
  if (count == 0) {
    if (head_.version_minor == 0) return true;
    return refuse(400, "no Host"), false;
  }
  head_.host = to_lower_ascii(*find_header(head_.headers, "host"));
  if (!is_valid_host(head_.host)) return refuse(400, "the Host is malformed"), false;
  if (!head_.target.authority.empty() && head_.target.authority != head_.host)
    return refuse(400, "the request target and Host name different hosts"), false;
  return true;
}

bool RequestParser::check_transfer_encoding() {
  if (count_headers(head_.headers, "transfer-encoding") == 0) return true;
  if (head_.version_minor == 0) return refuse(400, "Transfer-Encoding in HTTP/1.0"), false;
  if (count_headers(head_.headers, "content-length") > 0)
    return refuse(400, "both Content-Length and Transfer-Encoding"), false;
  const auto codings = list_elements(head_.headers, "transfer-encoding");
  for (const std::string& coding : codings)
    if (coding != "chunked") return refuse(501, "a Transfer-Encoding other than chunked"), false;
  if (codings.size() != 1) return refuse(400, "a malformed Transfer-Encoding"), false;
  head_.chunked = true;
  return true;
}

bool RequestParser::check_length() {
  const size_t count = count_headers(head_.headers, "content-length");
  if (count == 0) return true;
  if (count > 1) return refuse(400, "more than one Content-Length"), false;
  const std::string_view text = *find_header(head_.headers, "content-length");
  if (!all_digits(text)) return refuse(400, "the Content-Length is not a number"), false;
  uint64_t length = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), length);
  if (code != std::errc() || end != text.data() + text.size() || length > limits_.max_body_bytes)
    return refuse(413, "the body is larger than the limit"), false;
  head_.content_length = length;
  return true;
}

void RequestParser::continue_to_body(bool keep) {
  if (state_ != State::kHeadDone) return;
  keep_body_ = keep;
  if (!head_.has_body()) {
    state_ = State::kDone;
    return;
  }
  state_ = State::kBody;
  stage_ = head_.chunked ? Stage::kChunkSize : Stage::kFixed;
  remaining_ = head_.content_length.value_or(0);
  // Memory follows what arrives, not what is declared.
  if (keep_body_) body_.reserve(std::min<uint64_t>(remaining_, kFirstBodyReserve));
}

void RequestParser::feed_body(std::string_view input, size_t& position) {
  switch (stage_) {
    case Stage::kFixed:
      take_body_bytes(input, position);
      if (remaining_ == 0) state_ = State::kDone;
      return;
    case Stage::kChunkSize:
      return feed_chunk_size(input, position);
    case Stage::kChunkData:
      take_body_bytes(input, position);
      if (remaining_ == 0) stage_ = Stage::kChunkEnd;
      return;
    case Stage::kChunkEnd:
      line_budget_ = 0;
      if (take_line(input, position, {400, "a chunk is longer than its size says"}) ==
          LineResult::kLine)
        stage_ = Stage::kChunkSize;
      return;
    case Stage::kTrailers:
      return feed_trailers(input, position);
    case Stage::kRequestLine:
    case Stage::kHeaders:
      return refuse(400, "not in a body");
  }
}

void RequestParser::take_body_bytes(std::string_view input, size_t& position) {
  const size_t count = std::min<uint64_t>(remaining_, input.size() - position);
  if (keep_body_) body_.append(input.substr(position, count));
  position += count;
  remaining_ -= count;
  body_bytes_ += count;
}

void RequestParser::feed_chunk_size(std::string_view input, size_t& position) {
  line_budget_ = limits_.max_chunk_line_bytes;
  if (take_line(input, position, {400, "a chunk size line is longer than the limit"}) !=
      LineResult::kLine)
    return;
  const std::string_view line = line_;
  const size_t digits = std::min(line.find(';'), line.size());
  uint64_t size = 0;
  // from_chars takes no sign for unsigned types, no blanks and no "0x".
  const auto [end, code] = std::from_chars(line.data(), line.data() + digits, size, 16);
  if (code == std::errc::invalid_argument || end != line.data() + digits)
    return refuse(400, "a chunk size is not a hexadecimal number");
  extension_bytes_ += line.size() - digits;
  if (extension_bytes_ > limits_.max_chunk_extension_bytes)
    return refuse(400, "more chunk extensions than the limit");
  if (code != std::errc() || size > limits_.max_body_bytes - body_bytes_)
    return refuse(413, "the body is larger than the limit");
  if (size > 0 && ++chunks_ > limits_.max_chunks)
    return refuse(413, "the body has more chunks than the limit");
  line_.clear();
  remaining_ = size;
  stage_ = size > 0 ? Stage::kChunkData : Stage::kTrailers;
}

void RequestParser::feed_trailers(std::string_view input, size_t& position) {
  line_budget_ = limits_.max_header_bytes - header_bytes_;
  if (take_line(input, position, {431, "the trailers are larger than the limit"}) !=
      LineResult::kLine)
    return;
  if (line_.empty()) {
    state_ = State::kDone;
    return;
  }
  if (parse_header_line(nullptr)) line_.clear();
}

}  // namespace tandem::net
