#include "net/sse.h"

#include <gtest/gtest.h>

#include <vector>

namespace tandem::net {
namespace {

TEST(Sse, FramesOneLineOfJson) {
  EXPECT_EQ(sse_data(R"({"a":1})"), "data: {\"a\":1}\n\n");
  EXPECT_EQ(sse_data(""), "data: \n\n");
  EXPECT_EQ(sse_event("done", "x"), "event: done\ndata: x\n\n");
  EXPECT_EQ(sse_comment("still here"), ": still here\n\n");
}

TEST(Sse, LineEndsCannotBreakAFrame) {
  EXPECT_EQ(sse_data("a\nb\r\nc\rd"), "data: a\ndata: b\ndata: c\ndata: d\n\n");
  EXPECT_EQ(sse_comment("a\n\ndata: x"), ": adata: x\n\n");
  EXPECT_EQ(sse_event("a\ndata: x", "y"), "event: adata: x\ndata: y\n\n");
  EXPECT_EQ(sse_data("a\xe2\x80\xa8"
                     "b"),
            "data: a\xe2\x80\xa8"
            "b\n\n");
}

std::vector<SseEvent> parse(std::string_view text, size_t cut) {
  std::vector<SseEvent> out;
  SseParser parser;
  for (size_t i = 0; i < text.size(); i += cut)
    EXPECT_TRUE(parser.feed(text.substr(i, cut), [&](SseEvent e) { out.push_back(std::move(e)); }));
  return out;
}

TEST(Sse, ParserReadsWhatTheFramerWrites) {
  const std::string text =
      sse_data("one") + sse_comment("x") + sse_event("n", "two\nlines") + "id: 5\r\ndata:3\r\n\r\n";
  for (const size_t cut : {size_t{1}, size_t{3}, text.size()}) {
    const auto events = parse(text, cut);
    ASSERT_EQ(events.size(), 3u);
    EXPECT_EQ(events[0].data, "one");
    EXPECT_EQ(events[1].name, "n");
    EXPECT_EQ(events[1].data, "two\nlines");
    EXPECT_EQ(events[2].name, "");
    EXPECT_EQ(events[2].data, "3");
  }
}

TEST(Sse, ParserIsBounded) {
  SseParser parser(16);
  EXPECT_FALSE(parser.feed("data: " + std::string(100, 'x'), [](SseEvent) {}));
}

}  // namespace
}  // namespace tandem::net
