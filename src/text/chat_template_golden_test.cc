// Rendered texts equal to Jinja2's, on recorded cases.

#include <gtest/gtest.h>

#include <cstdio>
#include <map>

#include "text/chat_template.h"
#include "text/text_test_data.h"

namespace tandem::text {
namespace {

std::tm parse_time(const std::string& iso) {
  std::tm time{};
  EXPECT_EQ(std::sscanf(iso.c_str(),
                        "%d-%d-%dT%d:%d:%d",
                        &time.tm_year,
                        &time.tm_mon,
                        &time.tm_mday,
                        &time.tm_hour,
                        &time.tm_min,
                        &time.tm_sec),
            6);
  time.tm_year -= 1900;
  time.tm_mon -= 1;
  time.tm_isdst = -1;
  std::tm normalized = time;
  std::mktime(&normalized);  // fills in the day of the week and of the year
  time.tm_wday = normalized.tm_wday;
  time.tm_yday = normalized.tm_yday;
  return time;
}

OrderedJson variables_of(const OrderedJson& c) {
  OrderedJson variables = c.at("variables");
  variables["messages"] = c.at("messages");
  for (const char* key : {"tools", "documents"}) {
    if (!variables.contains(key)) variables[key] = nullptr;
  }
  if (!variables.contains("add_generation_prompt")) variables["add_generation_prompt"] = false;
  return variables;
}

Expected<std::string> render_case(const OrderedJson& c) {
  TANDEM_ASSIGN(const ChatTemplate chat, ChatTemplate::parse(c.at("template").get<std::string>()));
  const OrderedJson variables = variables_of(c);
  const ChatContext context{&variables, {}, parse_time(c.at("now").get<std::string>())};
  TANDEM_ASSIGN(const MarkedText text, chat.render(context, SteadyClock()));
  return text.text();
}

TEST(ChatTemplateGolden, Cases) {
  const auto cases = test::read_json_lines(test::golden_file("chat_template_cases.jsonl"));
  if (cases.empty()) GTEST_SKIP() << "no chat_template_cases.jsonl";
  std::map<std::string, std::pair<int, int>> by_source;  // passed, all
  int same_messages = 0;
  int errors = 0;
  for (const OrderedJson& c : cases) {
    const auto id = c.at("id").get<std::string>();
    const auto source = c.at("source").get<std::string>();
    const auto rendered = render_case(c);
    bool passed = false;
    if (c.contains("error")) {
      passed = !rendered;
      const auto wanted = c["error"].at("message").get<std::string>();
      if (!rendered) {
        const std::string& message = rendered.error().message;
        if (c["error"].at("type") == "TemplateError") passed = message == wanted;
        ++errors;
        same_messages += message.ends_with(wanted);
      }
      EXPECT_TRUE(passed) << id << ": " << wanted << "\n"
                          << (rendered ? *rendered : rendered.error().message);
    } else {
      const auto wanted = c.at("text").get<std::string>();
      passed = rendered && *rendered == wanted;
      EXPECT_TRUE(passed) << id << "\n-- wanted:\n"
                          << wanted << "\n-- got:\n"
                          << (rendered ? *rendered : rendered.error().message);
    }
    auto& [good, all] = by_source[source];
    good += passed;
    ++all;
  }
  for (const auto& [source, counts] : by_source) {
    std::printf("%-28s %d of %d\n", source.c_str(), counts.first, counts.second);
  }
  std::printf("error messages equal to Jinja2's: %d of %d\n", same_messages, errors);
}

// The bundled model's template, and the ids of its prompts through marked text.
TEST(ChatTemplateGolden, PromptsOfTheBundledModel) {
  const auto expected =
      test::read_file(test::either(test::source_dir() / "tests/golden/tandem_tiny_expected.json",
                                   test::shared_dir() / "model/expected.json"));
  const auto loaded = test::load_tokenizer("tandem-tiny-v3");
  if (!expected || !loaded) GTEST_SKIP() << "no expected.json";
  const auto chat = ChatTemplate::parse(loaded->config.chat_template("default").value());
  ASSERT_TRUE(chat) << chat.error().message;
  const OrderedJson json = parse_ordered_json(*expected).value();
  for (const OrderedJson& prompt : json.at("prompts")) {
    OrderedJson variables = {{"messages", prompt.at("messages")},
                             {"tools", prompt.at("tools")},
                             {"thinking", prompt.at("thinking")},
                             {"add_generation_prompt", true}};
    const auto text = chat->render({&variables, loaded->config.special_tokens, {}}, SteadyClock());
    ASSERT_TRUE(text) << text.error().message;
    EXPECT_EQ(text->text(), prompt.at("text").get<std::string>());
    EXPECT_EQ(loaded->tokenizer.encode(*text, SequenceTokens::kNone).value(),
              prompt.at("prompt_ids").get<std::vector<int32_t>>())
        << prompt.at("name");
  }
}

}  // namespace
}  // namespace tandem::text
