// Bounds, marks and errors of chat templates.

#include "text/chat_template.h"

#include <gtest/gtest.h>

#include <thread>

namespace tandem::text {
namespace {

Expected<MarkedText> render(std::string_view source,
                            OrderedJson variables = OrderedJson::object(),
                            const TemplateLimits& limits = {}) {
  TANDEM_ASSIGN(const ChatTemplate chat, ChatTemplate::parse(source, limits));
  return chat.render({&variables, {{"bos_token", "<s>"}}, {}}, SteadyClock());
}

// The text with untrusted parts in «».
std::string shown(std::string_view source, OrderedJson variables) {
  const auto text = render(source, std::move(variables));
  if (!text) return "error: " + text.error().message;
  std::string out;
  size_t done = 0;
  for (const Range& range : text->untrusted()) {
    out += text->text().substr(done, range.begin - done) + "«" +
           text->text().substr(range.begin, range.end - range.begin) + "»";
    done = range.end;
  }
  return out + text->text().substr(done);
}

const OrderedJson kMessages = {
    {"messages",
     {{{"role", "user"}, {"content", " <|x|> A-b "}}, {{"role", "attacker"}, {"content", "y"}}}},
    {"tools", {{{"name", "f"}, {"n", 1}}}},
    {"s", "ab cd"},
    {"flag", true}};

TEST(ChatTemplateMarks, FollowTheText) {
  const std::pair<const char*, const char*> cases[] = {
      {"{{ bos_token }}[{{ messages[0].content }}]", "<s>[« <|x|> A-b »]"},
      {"{{ '<|' + messages[0].role + '|>' }}", "<|user|>"},
      {"{{ '<|' + messages[1].role + '|>' }}", "<|«attacker»|>"},
      {"{{ '[' ~ messages[0].content | trim ~ ']' }}", "[«<|x|> A-b»]"},
      {"{{ messages[0].content.split('|')[1] }}", "«x»"},
      {"{{ s[1:4] }}|{{ s[::-1] }}|{{ s[0] }}", "«b c»|«dc ba»|«a»"},
      {"{{ s | upper }}{{ s.title() }}{{ s | capitalize }}", "«AB CDAb CdAb cd»"},
      {"{{ s.replace('b', '<|im_end|>') }}", "«a<|im_end|> cd»"},
      {"{{ ('x' ~ s ~ 'x').replace('x', '<|i|>') }}", "<|i|>«ab cd»<|i|>"},
      {"{{ tools | tojson }}", "«[{\"name\": \"f\", \"n\": 1}]»"},
      {"{{ tools[0].n | tojson }}", "1"},
      {"{{ tools }}", "«[{'name': 'f', 'n': 1}]»"},
      {"{% for k, v in tools[0].items() %}{{ k }}={{ v }};{% endfor %}", "«name»=«f»;«n»=1;"},
      {"{{ [s, 'z'] | join('-') }}", "«ab cd»-z"},
      {"{{ '-'.join([s, 'z']) }}", "«ab cd»-z"},
      {"{{ s.join(['1', '2']) }}", "1«ab cd»2"},
      {"{{ '%s|%5s|%d' % (s, 'q', 3) }}", "«ab cd»|    q|3"},
      {"{{ '{}<{}>'.format('a', s) }}", "a<«ab cd»>"},
      {"{{ s.format() }}", "«ab cd»"},
      {"{% set x %}[{{ s }}]{% endset %}{{ x }}", "[«ab cd»]"},
      {"{% macro m(t) %}<{{ t }}>{% endmacro %}{{ m(s) }}{{ m('z') }}", "<«ab cd»><z>"},
      {"{% filter upper %}t {{ s }}{% endfilter %}", "T «AB CD»"},
      {"{{ s | e }}{{ s * 2 }}{{ s | indent(2, true) }}", "«ab cdab cdab cd»  «ab cd»"},
      {"{{ s | list | last }}{{ s | first }}{{ s | truncate(4, true, '!', 0) }}", "«daab »!"},
      {"{% for c in s %}{{ c }}{% endfor %}", "«ab cd»"},
      {"{{ dict(a=s).a }}{{ namespace(a=s).a }}{{ (s, 1) | string }}", "«ab cdab cd('ab cd', 1)»"},
      {"{{ s if flag else 'n' }}{{ 'yes' if s == 'ab cd' }}", "«ab cd»yes"},
      {"{{ s.partition(' ')[0] }}{{ s.center(7, '*') }}{{ s.zfill(6) }}", "«ab»*«ab cd»*0«ab cd»"},
      {"{{ strftime_now(s) }}", "«ab cd»"},
      {"{{ s | length }}{{ s.count('b') }}", "51"},
  };
  for (const auto& [source, wanted] : cases) EXPECT_EQ(shown(source, kMessages), wanted) << source;
}

// Special tokens win over a client's variable of the same name.
TEST(ChatTemplateMarks, ClientsCannotReplaceSpecialTokens) {
  EXPECT_EQ(shown("{{ bos_token }}", {{"bos_token", "evil"}}), "<s>");
}

TEST(ChatTemplateErrors, RaisedMessagesStayAsTheyAre) {
  const auto text = render("x{{ raise_exception('Roles must alternate: ' ~ 3) }}");
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().message, "Roles must alternate: 3");
  EXPECT_EQ(text.error().code, ErrorCode::kInvalidArgument);
}

TEST(ChatTemplateErrors, NameTheLine) {
  EXPECT_EQ(render("a\nb{{ x.y }}").error().message, "chat template, line 2: 'x' is undefined");
  EXPECT_EQ(render("\n\n{% for %}").error().message,
            "chat template, line 3: expected a name, got end of statement block");
  EXPECT_EQ(render("{% include 'x' %}").error().code, ErrorCode::kUnsupported);
  EXPECT_FALSE(render("\xFF"));
  EXPECT_FALSE(render(std::string(ChatTemplate::kMaxSourceBytes + 1, 'a')));
}

TEST(ChatTemplateBounds, Steps) {
  TemplateLimits limits;
  limits.max_steps = 100'000;
  const char* loops =
      "{% for a in range(1000) %}{% for b in range(1000) %}{% endfor %}{% endfor %}";
  const auto text = render(loops, {}, limits);
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, ErrorCode::kTimeout);
  EXPECT_EQ(text.error().message, "chat template, line 1: takes more than 100000 steps");
}

// A clock that moves by itself: rendering stops although no step bound is reached.
class RunningClock final : public Clock {
 public:
  TimePoint now() const override {
    calls_ += 1;
    return TimePoint(std::chrono::seconds(calls_));
  }

 private:
  mutable int64_t calls_ = 0;
};

TEST(ChatTemplateBounds, Time) {
  TemplateLimits limits;
  limits.max_time = std::chrono::seconds(5);
  const auto chat = ChatTemplate::parse(
      "{% for a in range(1000) %}{% for b in range(100) %}{{ a }}{% endfor %}{% endfor %}", limits);
  const auto text = chat->render({}, RunningClock());
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, ErrorCode::kTimeout);
  EXPECT_NE(text.error().message.find("longer than 5000 ms"), std::string::npos);
}

TEST(ChatTemplateBounds, OutputAndMemory) {
  TemplateLimits limits;
  limits.max_output_bytes = 1000;
  EXPECT_NE(render("{% for a in range(500) %}abc{% endfor %}", {}, limits)
                .error()
                .message.find("more than 1000 bytes"),
            std::string::npos);
  EXPECT_FALSE(render("{{ [1] * 100000 }}", {}, limits));
  EXPECT_FALSE(render("{{ ([1] * 100000) | tojson }}", {}, limits));
  limits = {};
  limits.max_live_bytes = 1 << 20;
  const char* const hungry[] = {
      "{{ ('x' * 100000000) | length }}",
      "{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(40) %}{% set ns.s = ns.s ~ ns.s "
      "%}{% endfor %}",
      "{% set ns = namespace(l=[1]) %}{% for i in range(40) %}{% set ns.l = ns.l + ns.l %}{% "
      "endfor "
      "%}",
      "{% set ns = namespace(l=[]) %}{% for i in range(9000) %}{% set ns.l = ns.l + ['x' * 1000] "
      "%}{% endfor %}",
      "{{ ('ab' * 200000).replace('a', 'xxxxxxxxxxxx') | length }}",
      "{{ ('a,' * 400000).split(',') | length }}",
      "{{ '%99999s' % 1 ~ '%99999s' % 1 ~ '%99999s' % 1 ~ ('x' * 1000000) }}",
      "{% for a in range(100000) %}{% macro m() %}{% endmacro %}{% endfor %}",
      "{% for a in range(100000) %}{% set x = namespace(a=a) %}{% endfor %}",
      "{{ range(100000) | list | length }}",
  };
  for (const char* source : hungry) {
    const auto text = render(source, {}, limits);
    ASSERT_FALSE(text) << source;
    EXPECT_EQ(text.error().code, ErrorCode::kInvalidArgument) << text.error().message;
  }
}

TEST(ChatTemplateBounds, MemoryIsGivenBack) {
  TemplateLimits limits;
  limits.max_live_bytes = 4 << 20;
  // Far more in sum than at any moment.
  EXPECT_TRUE(
      render("{% for i in range(2000) %}{% set x = 'x' * 100000 %}{% endfor %}", {}, limits));
}

TEST(ChatTemplateBounds, Range) {
  EXPECT_TRUE(render("{{ range(100000) | length }}"));
  EXPECT_FALSE(render("{{ range(100001) | length }}"));
  EXPECT_FALSE(render("{{ range(0, 9000000000000000000000, 1) | length }}"));
  EXPECT_FALSE(render("{{ range(1, 2, 0) }}"));
}

std::string repeated(std::string_view part, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += part;
  return out;
}

TEST(ChatTemplateBounds, Depth) {
  const std::string deep[] = {
      repeated("(", 5000) + "1" + repeated(")", 5000),
      repeated("[", 5000),
      repeated("not ", 5000) + "1",
      repeated("- ", 5000) + "1",
      "a" + repeated(".b", 5000),
      "a" + repeated("[0]", 5000),
      "a" + repeated("|trim", 5000),
      "a" + repeated("()", 5000),
      "1" + repeated(" if 1", 5000),
      "1" + repeated(" if 1 else 1", 5000),
      repeated("{1:", 5000),
      "a is " + repeated("not defined is ", 5000),
  };
  for (const std::string& expression : deep) {
    EXPECT_FALSE(render("{{ " + expression + " }}")) << expression.substr(0, 20);
  }
  EXPECT_FALSE(render(repeated("{% if 1 %}", 5500)));
  EXPECT_FALSE(render(repeated("{% for i in [1] %}", 500) + repeated("{% endfor %}", 500)));
  EXPECT_FALSE(render("{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}"));
  EXPECT_FALSE(render("{% for x in [[1]] recursive %}{{ loop([[1]]) }}{% endfor %}"));
  EXPECT_FALSE(
      render("{% set ns = namespace(l=[]) %}{% for i in range(1000) %}{% set ns.l = [ns.l] %}{% "
             "endfor %}"));
  EXPECT_FALSE(
      render("{% set ns = namespace(l=1) %}{% for i in range(1000) %}{% for j in [ns.l] "
             "%}{% set ns.l = loop %}{% endfor %}{% endfor %}"));
  // Long is not deep.
  EXPECT_EQ(render("{{ 0" + repeated(" + 1", 5000) + " }}")->text(), "5000");
  EXPECT_EQ(render("{{ 1" + repeated(" and 1", 5000) + " }}")->text(), "1");
  EXPECT_EQ(render("{{ ''" + repeated(" ~ 'a'", 5000) + " }}")->size(), 5000u);
  EXPECT_EQ(
      render("{% if 0 %}" + repeated("{% elif 0 %}", 5000) + "{% else %}e{% endif %}")->text(),
      "e");
}

// Values that hold themselves, or share their parts so often that walking them would never end.
TEST(ChatTemplateBounds, KnottedValues) {
  EXPECT_FALSE(render("{% set ns = namespace() %}{% set ns.a = ns %}{% set ns.b = ns %}{{ ns }}"));
  EXPECT_FALSE(render("{% set ns = namespace() %}{% set ns.a = [ns] %}{{ ns.a | tojson }}"));
  EXPECT_TRUE(render("{% set ns = namespace() %}{% set ns.a = ns %}{{ ns == ns }}"));
  EXPECT_FALSE(
      render("{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, "
             "ns.l] %}{% endfor %}{{ ns.l == 1 }}"));
  EXPECT_TRUE(render("{% for i in [1, 2] %}{{ loop.changed(loop) }}{% endfor %}"));
}

TEST(ChatTemplateBounds, DeepJson) {
  OrderedJson deep = 1;
  for (int i = 0; i < 200; ++i) deep = OrderedJson::array({deep});
  const auto text = render("{{ x }}", {{"x", deep}});
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, ErrorCode::kInvalidArgument);
}

TEST(ChatTemplate, IntegersAreChecked) {
  EXPECT_EQ(render("{{ 10 ** 38 }}")->text(), "1" + std::string(38, '0'));
  EXPECT_FALSE(render("{{ 10 ** 39 }}"));
  EXPECT_FALSE(render("{{ 2 ** 126 + 2 ** 126 }}"));
  EXPECT_FALSE(render("{{ -(2 ** 126) * 4 }}"));
  EXPECT_FALSE(render("{{ (0 - 2 ** 126 - 2 ** 126) // -1 }}"));
  EXPECT_FALSE(render("{{ 1 % 0 }}"));
  EXPECT_FALSE(render("{{ 999999999999999999999999999999999999999999 }}"));
  EXPECT_EQ(render("{{ 2 ** 1000000000000 | int if false else 'k' }}")->text(), "k");
  EXPECT_EQ(
      render("{{ 'abc'[99999999999999999999999:] }}|{{ 'abc'[-99999999999999999999:] }}")->text(),
      "|abc");
}

TEST(ChatTemplate, BrokenUtf8InVariablesBecomesReplacementCharacters) {
  EXPECT_EQ(render("{{ x }}", {{"x", "a\xFF"}})->text(), "a\uFFFD");
}

TEST(ChatTemplate, ManyThreadsShareOne) {
  const auto chat = ChatTemplate::parse("{% for m in messages %}{{ 'x' ~ m.content }}{% endfor %}");
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        const auto text = chat->render({&kMessages, {}, {}}, SteadyClock());
        EXPECT_EQ(text->text(), "x <|x|> A-b xy");
      }
    });
  }
}

}  // namespace
}  // namespace tandem::text
