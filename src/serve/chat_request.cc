#include "serve/chat_request.h"

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
  TANDEM_ASSIGN(const auto effort, fields.string("reasoning_effort"));
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
  TANDEM_ASSIGN(out.options, read_generation_options(fields, Endpoint::kChat));
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
