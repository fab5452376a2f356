#include "base/json.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(Json, DepthIsBounded) {
  const std::string deep(65, '[');
  EXPECT_NE(parse_json(deep).error().message.find("deeper than 64"), std::string::npos);
  EXPECT_TRUE(parse_json(std::string(64, '[') + std::string(64, ']')));
  EXPECT_TRUE(parse_json("\"" + std::string(100, '[') + "\\\"" + std::string(100, '{') + "\""));
}

TEST(Json, ErrorsAreValues) {
  for (const char* text : {"", "{", "nul", "[1] x", "\"\\ud800\"", "\"\xff\"", "{\"a\":01}"}) {
    EXPECT_FALSE(parse_json(text)) << text;
  }
}

TEST(Json, ErrorsNameTheKeyBefore) {
  EXPECT_EQ(parse_json(R"({"a": "x", "temperature": Infinity})").error().message,
            "not valid JSON at byte 27, after the key 'temperature'");
}

// Duplicate keys of ordered objects are found by comparing each with each.
TEST(Json, WorkOfOrderedObjectsIsBounded) {
  std::string text = "{";
  for (int i = 0; i < 20000; ++i) text += fmt::format("\"{}\":1,", i);
  text += "\"z\":1}";
  EXPECT_FALSE(parse_ordered_json(text));
  EXPECT_TRUE(parse_json(text));
  std::string list = "[";
  for (int i = 0; i < 20000; ++i) list += "{\"a\":1},";
  EXPECT_TRUE(parse_ordered_json(list + "1]"));
}

TEST(Json, DumpNeverThrows) { EXPECT_EQ(dump_json(Json("a\xFF")), "\"a\xEF\xBF\xBD\""); }

TEST(Json, OrderIsKept) {
  EXPECT_EQ(dump_json(parse_ordered_json(R"({"z":1,"a":2})").value()), R"({"z":1,"a":2})");
}

TEST(Json, TypedLookups) {
  const Json object =
      parse_json(R"({"n":4,"f":1.0,"s":"x","null":null,"big":18446744073709551615})").value();
  EXPECT_EQ(json_int(object, "n", 0, 9, "c").value(), 4);
  EXPECT_EQ(json_int(object, "f", 0, 9, "c").value(), 1);
  EXPECT_EQ(json_int(object, "null", 0, 9, "c").value(), std::nullopt);
  EXPECT_EQ(json_int(object, "n", 5, 9, "c").error().message,
            "c: 'n' must be between 5 and 9, found 4");
  EXPECT_FALSE(json_int(object, "s", 0, 9, "c"));
  EXPECT_FALSE(json_int(object, "big", 0, INT64_MAX, "c"));
  EXPECT_EQ(json_string(object, "s", "c").value(), "x");
  EXPECT_FALSE(json_bool(object, "s", "c"));
}

}  // namespace
}  // namespace tandem
