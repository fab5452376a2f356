#include "app/serve_options.h"

#include <gtest/gtest.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

namespace tandem::app {
namespace {

TEST(ServeOptions, CountsTakeVllmsSuffixes) {
  EXPECT_EQ(parse_count("8").value(), 8);
  EXPECT_EQ(parse_count("8k").value(), 8000);
  EXPECT_EQ(parse_count("8K").value(), 8192);
  EXPECT_EQ(parse_count("2G").value(), int64_t{2} << 30);
  for (const char* text : {"", "k", "8kk", "8 k", "x", "99999999999999999999", "9999999999G"}) {
    EXPECT_FALSE(parse_count(text)) << text;
  }
}

TEST(ServeOptions, SwapSpaceIsInGibAndTakesFractions) {
  EXPECT_EQ(parse_gib("0").value(), 0);
  EXPECT_EQ(parse_gib("4").value(), int64_t{4} << 30);
  EXPECT_EQ(parse_gib("0.5").value(), int64_t{1} << 29);
  EXPECT_EQ(parse_gib("1048576").value(), int64_t{1} << 50);
  for (const char* text : {"", "-1", "1G", "nan", "inf", "1e400", "1048577", " 1", "1,5"}) {
    EXPECT_FALSE(parse_gib(text)) << text;
  }
}

ServeOptions parse(const std::vector<std::string>& arguments) {
  ServeOptions options;
  CLI::App command;
  add_serve_options(command, options);
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // as CLI11 wants it
  command.parse(reversed);
  return options;
}

TEST(ServeOptions, SwapFlags) {
  EXPECT_EQ(parse({}).swap_space_bytes, 0);
  EXPECT_EQ(parse({}).preemption_mode, "auto");
  const ServeOptions options = parse({"--swap-space", "0.25", "--preemption-mode", "swap"});
  EXPECT_EQ(options.swap_space_bytes, int64_t{1} << 28);
  EXPECT_EQ(options.preemption_mode, "swap");
  EXPECT_THROW(parse({"--swap-space", "much"}), CLI::ParseError);
  EXPECT_THROW(parse({"--preemption-mode", "never"}), CLI::ParseError);
}

TEST(ServeOptions, ListsAreJsonOrWords) {
  using List = std::vector<std::string>;
  EXPECT_EQ(parse({}).allowed_origins, List{"*"});
  EXPECT_EQ(parse({"--allowed-origins", "http://a"}).allowed_origins, List{"http://a"});
  EXPECT_EQ(parse({"--allowed-origins", R"(["http://a", "http://b,c"])"}).allowed_origins,
            (List{"http://a", "http://b,c"}));
  EXPECT_EQ(parse({"--allowed-headers", "x-a", "--allowed-headers", "x-b"}).allowed_headers,
            (List{"x-a", "x-b"}));
  EXPECT_THROW(parse({"--allowed-methods", "[1]"}), CLI::ParseError);
  EXPECT_THROW(parse({"--allowed-methods", "[\"GET\""}), CLI::ParseError);
}

TEST(ServeOptions, KeysMayBeSeveralAndAreNotRepeatedInErrors) {
  EXPECT_TRUE(parse({}).api_keys.empty());
  EXPECT_EQ(parse({"--api-key", "a", "--api-key", "b"}).api_keys.size(), 2U);
  const ServeOptions before_model = parse({"--api-key", "[a,b]", "folder"});
  EXPECT_EQ(before_model.api_keys, std::vector<std::string>{"[a,b]"});
  EXPECT_EQ(before_model.model, "folder");
  for (const char* key : {"", "two words", "key\n", "k\xC3\xA9"}) {
    try {
      parse({"--api-key", key});
      ADD_FAILURE() << key;
    } catch (const CLI::ParseError& error) {
      EXPECT_NE(std::string(error.what()).find("--api-key"), std::string::npos);
      EXPECT_EQ(std::string(error.what()).find("two words"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace tandem::app
