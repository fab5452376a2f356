#include "net/request_parser.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace tandem::net {
namespace {

struct Outcome {
  int status = 0;  // 0: a whole request
  std::string method, path, query, body;
  Headers headers;
  size_t used = 0;
  bool complete = false;
  bool keep_alive = false;
};

// Feeds `text` in pieces of `cut` bytes until a request is complete or refused.
Outcome parse(std::string_view text, size_t cut = 1 << 20, const HttpLimits& limits = {}) {
  RequestParser parser(limits);
  Outcome out;
  while (!text.empty()) {
    const size_t used = parser.feed(text.substr(0, cut));
    out.used += used;
    text.remove_prefix(used);
    if (parser.state() == RequestParser::State::kHeadDone) parser.continue_to_body(true);
    if (parser.state() == RequestParser::State::kError) {
      out.status = parser.error().status;
      EXPECT_NE(std::string_view(parser.error().reason), "");
      return out;
    }
    if (parser.state() == RequestParser::State::kDone) {
      out.complete = true;
      const RequestHead& head = parser.head();
      out.method = head.method;
      out.path = head.target.path;
      out.query = head.target.query;
      out.headers = head.headers;
      out.keep_alive = head.keep_alive;
      out.body = parser.body();
      return out;
    }
  }
  return out;
}

std::string get(std::string_view extra_headers) {
  return "GET / HTTP/1.1\r\nHost: x\r\n" + std::string(extra_headers) + "\r\n";
}

TEST(RequestParser, EveryCutGivesTheSameRequest) {
  const std::string text =
      "\r\nPOST /a%20b?q=1 HTTP/1.1\r\nHost: x:8000\r\nX-Thing:  v w\t\r\n"
      "Transfer-Encoding: chunked\r\n\r\n4;name=v\r\nwiki\r\n005\r\npedia\r\n0\r\nTrail: 1\r\n\r\n";
  for (size_t cut = 1; cut <= text.size(); ++cut) {
    const Outcome out = parse(text + "GET", cut);
    ASSERT_TRUE(out.complete) << cut;
    EXPECT_EQ(out.method, "POST");
    EXPECT_EQ(out.path, "/a b");
    EXPECT_EQ(out.query, "q=1");
    EXPECT_EQ(out.body, "wikipedia");
    EXPECT_EQ(find_header(out.headers, "x-thing"), "v w");
    EXPECT_FALSE(find_header(out.headers, "trail"));
    EXPECT_EQ(out.used, text.size()) << "took bytes of the next request";
  }
}

TEST(RequestParser, RefusesWhatIsNotHttp) {
  const std::vector<std::pair<std::string, int>> cases = {
      {"GET\r\n\r\n", 400},
      {"GET /\r\n\r\n", 400},
      {"hello there\r\n\r\n", 400},
      {"GET  / HTTP/1.1\r\n", 400},
      {"GET / x HTTP/1.1\r\n", 400},
      {"GET / HTTP/9.9\r\nHost: x\r\n\r\n", 505},
      {"GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505},
      {"GET / HTTP/1.10\r\n", 400},
      {"GET / http/1.1\r\n", 400},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
      {"\x16\x03\x01\x02", 400},
      {std::string("GET /\0 HTTP/1.1\r\n", 17), 400},
      {"G\xc3\xa4T", 400},
      {"{\"model\": 1}", 400},
      {std::string(40, 'A'), 400},
      {"\r\n\r\n\r\n", 400},
      {"GET / HTTP/1.1\nHost: x\n\n", 400},
      {"GET / HTTP/1.1\rHost: x", 400},
      {"GET /a#b HTTP/1.1\r\n", 400},
      {"GET * HTTP/1.1\r\n", 400},
      {"CONNECT x:80 HTTP/1.1\r\n", 400}};
  for (const auto& [text, status] : cases) {
    EXPECT_EQ(parse(text).status, status) << text;
    EXPECT_EQ(parse(text, 1).status, status) << text;
  }
}

TEST(RequestParser, RefusesMalformedHeaders) {
  for (const std::string& headers : {std::string("Bad Header Line\r\n"),
                                     std::string(": empty\r\n"),
                                     std::string("Name : v\r\n"),
                                     std::string("A: b\r\n folded\r\n"),
                                     std::string("\tA: b\r\n"),
                                     std::string("A: b\nC: d\r\n"),
                                     std::string("A: b\rC: d\r\n"),
                                     std::string("A: \0b\r\n", 7),
                                     std::string("A: \x01\r\n"),
                                     std::string("Host: y\r\n"),
                                     std::string("H\xc3\xa4: b\r\n")})
    EXPECT_EQ(parse(get(headers)).status, 400) << headers;
  EXPECT_TRUE(parse(get("A: \xc3\xa4\t b\r\nEmpty:\r\n")).complete);
}

TEST(RequestParser, HostIsRequiredAndChecked) {
  EXPECT_EQ(parse("GET / HTTP/1.1\r\n\r\n").status, 400);
  EXPECT_TRUE(parse("GET / HTTP/1.0\r\n\r\n").complete);
  for (const char* host :
       {"", "a b", "a/b", "a@b", "a#b", "a,b", "a:b", "a:", "a:123456", "[::1", "[g]"})
    EXPECT_EQ(parse("GET / HTTP/1.1\r\nHost: " + std::string(host) + "\r\n\r\n").status, 400)
        << host;
  for (const char* host : {"a.b-c_d", "127.0.0.1:8000", "[::1]:80", "[fe80::1]", "LOCALHOST"})
    EXPECT_TRUE(parse("GET / HTTP/1.1\r\nHost: " + std::string(host) + "\r\n\r\n").complete)
        << host;
  EXPECT_TRUE(parse("GET http://X:1/p HTTP/1.1\r\nHost: x:1\r\n\r\n").complete);
  EXPECT_EQ(parse("GET http://y/p HTTP/1.1\r\nHost: x\r\n\r\n").status, 400);
}

TEST(RequestParser, FramingTricksAreRefused) {
  const std::vector<std::pair<std::string, int>> cases = {
      {"Content-Length: -1\r\n", 400},
      {"Content-Length: +5\r\n", 400},
      {"Content-Length: abc\r\n", 400},
      {"Content-Length: 0x5\r\n", 400},
      {"Content-Length: 5 5\r\n", 400},
      {"Content-Length: 5, 5\r\n", 400},
      {"Content-Length:\r\n", 400},
      {"Content-Length: 5\r\nContent-Length: 5\r\n", 400},
      {"Content-Length: 5\r\ncontent-length: 6\r\n", 400},
      {"Content-Length: 999999999999\r\n", 413},
      {"Content-Length: 99999999999999999999999999\r\n", 413},
      {"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", 400},
      {"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", 400},
      {"Transfer-Encoding:\r\n", 400},
      {"Transfer-Encoding: gzip, nope\r\n", 501},
      {"Transfer-Encoding: gzip, chunked\r\n", 501},
      {"Transfer-Encoding: xchunked\r\n", 501}};
  for (const auto& [headers, status] : cases)
    EXPECT_EQ(parse(get(headers)).status, status) << headers;
  EXPECT_EQ(parse("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n").status, 400);
}

TEST(RequestParser, ChunkTricksAreRefused) {
  const std::string head = get("Transfer-Encoding: chunked\r\n");
  const std::vector<std::pair<std::string, int>> cases = {
      {"-2\r\n", 400},
      {"+2\r\n", 400},
      {"0x2\r\n", 400},
      {" 2\r\n", 400},
      {"2 \r\n", 400},
      {"\r\n", 400},
      {";a\r\n", 400},
      {"g\r\n", 400},
      {"2\n", 400},
      {"2\r\nabc\r\n", 400},
      {"2\r\nab0\r\n", 400},
      {"FFFFFFFFFFFFFFFF\r\n", 413},
      {"FFFFFFFFFFFFFFFFF\r\n", 413},
      {"2;" + std::string(300, 'a') + "\r\n", 400},
      {"0\r\n bad\r\n", 400},
      {"0\r\nbad\r\n", 400}};
  for (const auto& [chunks, status] : cases) {
    EXPECT_EQ(parse(head + chunks).status, status) << chunks;
    EXPECT_EQ(parse(head + chunks, 1).status, status) << chunks;
  }
}

TEST(RequestParser, LimitsHaveTheirStatus) {
  HttpLimits limits;
  limits.max_request_line_bytes = 64;
  limits.max_header_bytes = 200;
  limits.max_header_count = 4;
  limits.max_body_bytes = 10;
  limits.max_chunks = 3;
  limits.max_chunk_extension_bytes = 20;
  EXPECT_EQ(parse("GET /" + std::string(100, 'a') + " HTTP/1.1\r\n", 7, limits).status, 414);
  EXPECT_EQ(parse(get("A: " + std::string(200, 'a')), 7, limits).status, 431);
  EXPECT_EQ(parse(get("A:1\r\nB:1\r\nC:1\r\nD:1\r\n"), 7, limits).status, 431);
  EXPECT_TRUE(parse(get("A:1\r\nB:1\r\nC:1\r\n"), 7, limits).complete);
  EXPECT_EQ(parse(get("Content-Length: 11\r\n"), 7, limits).status, 413);
  const std::string head = get("Transfer-Encoding: chunked\r\n");
  EXPECT_EQ(parse(head + "6\r\n123456\r\n5\r\n", 7, limits).status, 413);
  EXPECT_TRUE(parse(head + "6\r\n123456\r\n4\r\n1234\r\n0\r\n\r\n", 7, limits).complete);
  const std::string one = "1\r\nx\r\n";
  EXPECT_TRUE(parse(head + one + one + one + "0\r\n\r\n", 7, limits).complete);
  EXPECT_EQ(parse(head + one + one + one + one + "0\r\n\r\n", 7, limits).status, 413);
  EXPECT_EQ(parse(head + "1;aaaaaaaaaaa\r\nx\r\n1;aaaaaaaaaaa\r\n", 7, limits).status, 400);
  EXPECT_EQ(parse(head + "0\r\nA:1\r\nB:1\r\nC:1\r\n", 7, limits).status, 431);
}

TEST(RequestParser, BodyThatIsNotKeptIsCounted) {
  const HttpLimits limits;
  RequestParser parser(limits);
  const std::string head = get("Content-Length: 5\r\n");
  EXPECT_EQ(parser.feed(head + "hello"), head.size());
  ASSERT_EQ(parser.state(), RequestParser::State::kHeadDone);
  parser.continue_to_body(false);
  EXPECT_EQ(parser.feed("helloNEXT"), 5u);
  EXPECT_EQ(parser.state(), RequestParser::State::kDone);
  EXPECT_EQ(parser.body(), "");
  EXPECT_EQ(parser.body_bytes(), 5u);
  parser.reset();
  EXPECT_FALSE(parser.started());
}

TEST(RequestParser, KeepAliveFollowsVersionAndHeader) {
  EXPECT_TRUE(parse(get("")).keep_alive);
  EXPECT_FALSE(parse(get("Connection: foo, Close\r\n")).keep_alive);
  EXPECT_FALSE(parse("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").keep_alive);
}

// Random damage to a good request: ends in a request or a 4xx/5xx, never reads past its input, and
// the result does not depend on the cuts.
TEST(RequestParser, SurvivesDamage) {
  const std::string good =
      "POST /v1/x?a=b HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n"
      "\r\n5\r\nhello\r\n3;e=1\r\nabc\r\n0\r\nT: u\r\n\r\n";
  const std::string alphabet("\r\n\0\x7f\xff :;,%/.0fG", 15);
  std::mt19937 random(7);
  for (int round = 0; round < 20000; ++round) {
    std::string text = good;
    for (int i = 0; i <= round % 3; ++i) {
      const size_t at = random() % text.size();
      const char c = alphabet[random() % alphabet.size()];
      if (random() % 3 == 0)
        text.erase(at, 1 + random() % 4);
      else if (random() % 2 == 0)
        text.insert(at, 1, c);
      else
        text[at] = c;
    }
    const Outcome whole = parse(text);
    const Outcome cut = parse(text, 1 + random() % 9);
    EXPECT_EQ(whole.status, cut.status) << text;
    EXPECT_EQ(whole.complete, cut.complete) << text;
    EXPECT_EQ(whole.body, cut.body) << text;
    EXPECT_TRUE(whole.status == 0 || (whole.status >= 400 && whole.status <= 505)) << text;
  }
}

}  // namespace
}  // namespace tandem::net
