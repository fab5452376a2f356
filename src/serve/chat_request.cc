#include "serve/chat_request.h"

#include <algorithm>
#include <array>

#include "serve/messages.h"

namespace tandem::serve {
namespace {

// logprobs: true asks for the drawn token's, top_logprobs for that many alternatives.
Checked<void> read_logprobs(const FieldReader& fields, frontend::GenerationOptions& options) {
  options.logprobs_name = "top_logprobs";
  TANDEM_ASSIGN(const auto wanted, fields.boolean("logprobs"));
  TANDEM_ASSIGN(const auto top, fields.integer("top_logprobs"));
  if (top && *top != 0 && !wanted.value_or(false)) {
    return invalid("top_logprobs", "is only accepted together with \"logprobs\": true");
  }
  if (wanted.value_or(false)) options.logprobs = top.value_or(0);
  return {};
}

Checked<std::optional<std::string>> read_effort(const FieldReader& fields) {
  static constexpr std::array kEfforts = {
      "none", "minimal", "low", "medium", "high", "xhigh", "max"};
  TANDEM_ASSIGN(auto effort, fields.string("reasoning_effort"));
  if (effort && std::find(kEfforts.begin(), kEfforts.end(), *effort) == kEfforts.end()) {
    return invalid("reasoning_effort",
                   "must be none, minimal, low, medium, high, xhigh or max, found \"{}\"",
                   effort->substr(0, 64));
  }
  return effort;
}

// As in vLLM: the answer goes on with the last message's role if no generation prompt is added, and
// echo puts that message before the answer if the two have the same role.
Checked<void> read_role_and_echo(const FieldReader& fields, ChatRequest& out) {
  const OrderedJson& last = out.input.messages.back();
  if (!out.input.add_generation_prompt) out.role = last["role"].get<std::string>();
  TANDEM_ASSIGN(const auto echo, fields.boolean("echo"));
  if (echo.value_or(false) && last["role"] == out.role)
    out.echo = last["content"].get<std::string>();
  return {};
}

// Further template variables. Those that the server sets itself may not be overridden.
Checked<void> read_template_kwargs(const FieldReader& fields, frontend::ChatInput& input) {
  if (const OrderedJson* kwargs = fields.find("chat_template_kwargs")) {
    if (!kwargs->is_object())
      return invalid("chat_template_kwargs", "must be an object, found {}", describe(*kwargs));
    for (const char* reserved : {"messages",
                                 "tools",
                                 "documents",
                                 "add_generation_prompt",
                                 "continue_final_message",
                                 "chat_template",
                                 "bos_token",
                                 "eos_token",
                                 "tokenize"}) {
      if (kwargs->contains(reserved))
        return invalid("chat_template_kwargs", "may not set '{}'", reserved);
    }
    input.template_kwargs = *kwargs;
  }
  TANDEM_ASSIGN(const auto effort, read_effort(fields));
  if (effort && !input.template_kwargs.contains("reasoning_effort")) {
    input.template_kwargs["reasoning_effort"] = *effort;
  }
  if (const OrderedJson* documents = fields.find("documents")) {
    if (!documents->is_array())
      return invalid("documents", "must be a list, found {}", describe(*documents));
    input.documents = *documents;
  }
  return {};
}

Checked<void> read_turn_flags(const FieldReader& fields, frontend::ChatInput& input) {
  TANDEM_ASSIGN(const auto generation, fields.boolean("add_generation_prompt"));
  TANDEM_ASSIGN(const auto open, fields.boolean("continue_final_message"));
  TANDEM_ASSIGN(const auto special, fields.boolean("add_special_tokens"));
  input.continue_final_message = open.value_or(false);
  if (input.continue_final_message && generation.value_or(false)) {
    return invalid("continue_final_message",
                   "cannot be combined with \"add_generation_prompt\": true");
  }
  input.add_generation_prompt = generation.value_or(!input.continue_final_message);
  input.add_special_tokens = special.value_or(false);
  return {};
}

Checked<void> read_tools(const FieldReader& fields, frontend::ChatInput& input) {
  const OrderedJson* tools = fields.find("tools");
  if (!tools) return {};
  if (!tools->is_array()) return invalid("tools", "must be a list, found {}", describe(*tools));
  for (const OrderedJson& tool : *tools) {
    const bool named = tool.is_object() && tool.contains("function") &&
                       tool["function"].is_object() && tool["function"].contains("name") &&
                       tool["function"]["name"].is_string();
    if (!named) return invalid("tools", "must hold objects with a 'function' that has a 'name'");
  }
  if (!tools->empty()) input.tools = *tools;
  return {};
}

}  // namespace

Checked<frontend::ChatInput> parse_chat_input(const OrderedJson& body) {
  const FieldReader fields(body);
  frontend::ChatInput input;
  TANDEM_ASSIGN(input.messages, normalize_messages(fields.find("messages")));
  TANDEM_TRY(read_tools(fields, input));
  TANDEM_TRY(read_turn_flags(fields, input));
  TANDEM_TRY(read_template_kwargs(fields, input));
  return input;
}

Checked<ChatRequest> parse_chat_request(const OrderedJson& body) {
  const FieldReader fields(body);
  ChatRequest out;
  TANDEM_ASSIGN(const auto model, fields.string("model"));
  out.model = model.value_or("");
  TANDEM_TRY(refuse_unbuilt_fields(fields, Endpoint::kChat));
  TANDEM_ASSIGN(out.input, parse_chat_input(body));
  TANDEM_TRY(read_role_and_echo(fields, out));
  TANDEM_ASSIGN(out.options, read_generation_options(fields, Endpoint::kChat));
  out.options.split_reasoning = true;
  TANDEM_ASSIGN(const auto reasoning, fields.boolean("include_reasoning"));
  out.include_reasoning = reasoning.value_or(true);
  TANDEM_TRY(read_logprobs(fields, out.options));
  TANDEM_ASSIGN(out.stream, read_stream_options(fields));
  if (out.stream.stream && out.options.prompt_logprobs) {
    return invalid("prompt_logprobs", "is not available with \"stream\": true");
  }
  TANDEM_ASSIGN(const auto ids, fields.boolean("return_token_ids"));
  out.return_token_ids = ids.value_or(false);
  TANDEM_ASSIGN(const auto as_ids, fields.boolean("return_tokens_as_token_ids"));
  out.return_tokens_as_token_ids = as_ids.value_or(false);
  return out;
}

}  // namespace tandem::serve
