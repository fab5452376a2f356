// Jinja chat templates: any source is refused or parsed, and any rendering ends within its bounds,
// with well-formed text. Input: the template, a line "====", the variables as JSON (a conversation
// when there are none).
#include "base/json.h"
#include "base/utf8.h"
#include "fuzz_input.h"
#include "text/chat_template.h"

namespace {

constexpr size_t kMaxOutputBytes = 64 * 1024;

const tandem::OrderedJson& usual_variables() {
  static const tandem::OrderedJson kVariables =
      tandem::parse_ordered_json(
          R"({"messages":[{"role":"system","content":"S"},{"role":"user","content":"Hi <|x|>"},
          {"role":"assistant","content":"a","reasoning_content":"r","tool_calls":[{"type":"function",
          "id":"c","function":{"name":"f","arguments":"{\"a\":1}"}}]},
          {"role":"tool","content":"5","tool_call_id":"c"},{"role":"user","content":"é你"}],
          "tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],
          "documents":null,"add_generation_prompt":true,"thinking":true})")
          .value();
  return kVariables;
}

tandem::text::TemplateLimits small_limits() {
  tandem::text::TemplateLimits limits;
  limits.max_steps = 20'000;
  limits.max_output_bytes = kMaxOutputBytes;
  limits.max_live_bytes = 4 << 20;
  limits.max_range = 1000;
  limits.max_depth = 100;
  return limits;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tandem::fuzz::FuzzInput input(data, size);
  const std::string_view source = input.until("\n====\n");
  auto variables = tandem::parse_ordered_json(input.rest());
  const auto chat = tandem::text::ChatTemplate::parse(source, small_limits());
  if (!chat) return 0;
  tandem::text::ChatContext context;
  context.variables =
      variables.has_value() && variables->is_object() ? &*variables : &usual_variables();
  context.special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  context.now = std::tm{};
  const tandem::SteadyClock clock;
  const auto text = chat->render(context, clock);
  if (!text) return 0;
  TANDEM_CHECK(text->text().size() <= kMaxOutputBytes);
  // A source that is not UTF-8 was refused, so the text is.
  TANDEM_CHECK(tandem::utf8_is_valid(text->text()));
  return 0;
}
