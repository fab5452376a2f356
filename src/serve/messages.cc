#include "serve/messages.h"

#include <algorithm>
#include <array>

namespace tandem::serve {
namespace {

constexpr size_t kMaxParts = 10'000;

Checked<std::string> read_part(const OrderedJson& part) {
  if (!part.is_object())
    return invalid("messages", "has a content part that is {}, not an object", describe(part));
  const auto type = part.find("type");
  if (type == part.end() || !type->is_string())
    return invalid("messages", "has a content part without a 'type' string");
  if (*type != "text" && *type != "input_text" && *type != "output_text" && *type != "refusal") {
    return invalid("messages",
                   "has a content part of type \"{}\"; this model takes only \"text\"",
                   type->get<std::string>().substr(0, 64));
  }
  const auto text = part.find(*type == "refusal" ? "refusal" : "text");
  if (text == part.end() || !text->is_string()) {
    return invalid("messages", "has a content part of type \"text\" without a 'text' string");
  }
  return text->get<std::string>();
}

// A string stays; text parts are joined by line ends, as vLLM does for templates that take strings.
Checked<std::string> read_content(const OrderedJson& content) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) {
    return invalid("messages",
                   "has a 'content' that is {}; accepted are a string and a list of text parts",
                   describe(content));
  }
  if (content.size() > kMaxParts)
    return invalid("messages",
                   "has a 'content' of {} parts, at most {} are accepted",
                   content.size(),
                   kMaxParts);
  std::string joined;
  for (size_t i = 0; i < content.size(); ++i) {
    TANDEM_ASSIGN(const std::string text, read_part(content[i]));
    if (i > 0) joined += '\n';
    joined += text;
  }
  return joined;
}

Checked<OrderedJson> read_tool_call(const OrderedJson& call) {
  if (!call.is_object())
    return invalid("messages", "has a tool call that is {}, not an object", describe(call));
  const auto function = call.find("function");
  if (function == call.end() || !function->is_object())
    return invalid("messages", "has a tool call without 'function'");
  const auto name = function->find("name");
  if (name == function->end() || !name->is_string())
    return invalid("messages", "has a tool call without a function name");
  OrderedJson out;
  if (call.contains("id") && call["id"].is_string()) out["id"] = call["id"];
  out["type"] = "function";
  out["function"]["name"] = *name;
  const auto arguments = function->find("arguments");
  if (arguments == function->end() || arguments->is_null()) {
    out["function"]["arguments"] = "{}";
  } else if (arguments->is_string() || arguments->is_object()) {
    out["function"]["arguments"] = *arguments;
  } else {
    return invalid(
        "messages", "has tool call arguments that are {}, not a string", describe(*arguments));
  }
  return out;
}

Checked<void> read_tool_calls(const OrderedJson& message, OrderedJson& out) {
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || calls->is_null()) return {};
  if (!calls->is_array())
    return invalid("messages", "has 'tool_calls' that are {}, not a list", describe(*calls));
  if (calls->size() > kMaxParts)
    return invalid("messages", "has too many tool calls: {}", calls->size());
  OrderedJson list = OrderedJson::array();
  for (const OrderedJson& call : *calls) {
    TANDEM_ASSIGN(OrderedJson checked, read_tool_call(call));
    list.push_back(std::move(checked));
  }
  if (!list.empty()) out["tool_calls"] = std::move(list);
  return {};
}

Checked<std::string> read_role(const OrderedJson& message) {
  const auto role = message.find("role");
  if (role == message.end() || !role->is_string())
    return invalid("messages", "has an entry without a 'role' string");
  static constexpr std::array kRoles = {
      "system", "developer", "user", "assistant", "tool", "function"};
  const auto name = role->get<std::string>();
  // Templates drop roles that they do not know without a word, so an unknown one is refused here.
  if (std::find(kRoles.begin(), kRoles.end(), name) == kRoles.end()) {
    return invalid("messages",
                   "has the role \"{}\"; accepted are system, developer, user, assistant, tool",
                   name.substr(0, 64));
  }
  // OpenAI's newer word for the same thing.
  return name == "developer"  ? std::string("system")
         : name == "function" ? std::string("tool")
                              : name;
}

Checked<void> copy_string(const OrderedJson& message,
                          const char* from,
                          const char* to,
                          OrderedJson& out) {
  const auto value = message.find(from);
  if (value == message.end() || value->is_null()) return {};
  if (!value->is_string())
    return invalid("messages", "has a '{}' that is {}, not a string", from, describe(*value));
  out[to] = *value;
  return {};
}

Checked<OrderedJson> read_message(const OrderedJson& message) {
  if (!message.is_object())
    return invalid("messages", "must hold objects, found {}", describe(message));
  OrderedJson out;
  TANDEM_ASSIGN(const std::string role, read_role(message));
  out["role"] = role;
  const auto content = message.find("content");
  if (content == message.end() || content->is_null()) {
    if (role != "assistant")
      return invalid("messages", "has an entry with role \"{}\" and no 'content'", role);
    out["content"] = "";
  } else {
    TANDEM_ASSIGN(out["content"], read_content(*content));
  }
  TANDEM_TRY(copy_string(message, "name", "name", out));
  TANDEM_TRY(copy_string(message, "tool_call_id", "tool_call_id", out));
  TANDEM_TRY(copy_string(message, "reasoning", "reasoning_content", out));
  TANDEM_TRY(copy_string(message, "reasoning_content", "reasoning_content", out));
  TANDEM_TRY(read_tool_calls(message, out));
  return out;
}

}  // namespace

Checked<OrderedJson> normalize_messages(const OrderedJson* messages) {
  if (!messages) return invalid("messages", "is required");
  if (!messages->is_array() || messages->empty()) {
    return invalid("messages",
                   "must be a non-empty list, found {}",
                   messages->is_array() ? "an empty one" : describe(*messages));
  }
  if (messages->size() > kMaxMessages) {
    return invalid(
        "messages", "has {} entries, at most {} are accepted", messages->size(), kMaxMessages);
  }
  OrderedJson out = OrderedJson::array();
  for (const OrderedJson& message : *messages) {
    TANDEM_ASSIGN(OrderedJson checked, read_message(message));
    out.push_back(std::move(checked));
  }
  return out;
}

}  // namespace tandem::serve
