#include "frontend/chat_prompt.h"

namespace tandem::frontend {
namespace {

OrderedJson variables_of(const ChatInput& input) {
  OrderedJson variables = input.template_kwargs;
  variables["messages"] = input.messages;
  variables["tools"] = input.tools;
  variables["documents"] = input.documents;
  variables["add_generation_prompt"] = input.add_generation_prompt;
  return variables;
}

std::string_view trim(std::string_view text, bool left, bool right) {
  constexpr std::string_view kBlanks = " \t\r\n\f\v";
  if (left) text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  if (right) text = text.substr(0, text.find_last_not_of(kBlanks) + 1);
  return text;
}

// Where `wanted` stands last in a client's text, or npos. The template's own text is passed over:
// an end marker may well spell the message's last word ("<｜end▁of▁sentence｜>").
size_t find_last_untrusted(const text::MarkedText& rendered, std::string_view wanted) {
  const auto& ranges = rendered.untrusted();
  const std::string_view text = rendered.text();
  for (auto range = ranges.rbegin(); range != ranges.rend(); ++range) {
    const size_t at = text.substr(range->begin, range->end - range->begin).rfind(wanted);
    if (at != std::string_view::npos) return range->begin + at;
  }
  return std::string_view::npos;
}

// Templates may trim content; so the last place of the content as it is, else without blanks at its
// end, is the end.
Checked<text::MarkedText> cut_after_last_message(const text::MarkedText& rendered,
                                                 const OrderedJson& message) {
  const std::string content = message["content"].get<std::string>();
  if (trim(content, true, true).empty() || message.contains("tool_calls")) {
    return invalid("continue_final_message",
                   "needs a last message with text to continue and without tool calls");
  }
  for (const bool right : {false, true}) {
    const std::string_view wanted = trim(content, true, right);
    const size_t at = find_last_untrusted(rendered, wanted);
    if (at != std::string_view::npos) return rendered.slice(0, at + wanted.size());
  }
  return invalid("continue_final_message",
                 "is not possible: the chat template does not show the last message as it is");
}

}  // namespace

Checked<text::MarkedText> render_chat(const text::ChatTemplate& chat_template,
                                      const SpecialTokens& special_tokens,
                                      const ChatInput& input,
                                      const Clock& clock) {
  const OrderedJson variables = variables_of(input);
  text::ChatContext context;
  context.variables = &variables;
  context.special_tokens = special_tokens;
  auto rendered = chat_template.render(context, clock);
  if (!rendered) {
    RequestError error = to_request_error(rendered.error(), "messages");
    error.kind =
        ErrorKind::kInvalid;  // too slow or too long a rendering is the request's fault, too
    return std::unexpected(std::move(error));
  }
  if (!input.continue_final_message) return std::move(*rendered);
  return cut_after_last_message(*rendered, input.messages.back());
}

}  // namespace tandem::frontend
