#include "serve/choice_format.h"

namespace tandem::serve {
namespace {

std::vector<frontend::OutputToken> echoed_tokens(const std::vector<frontend::PromptToken>& prompt,
                                                 const std::vector<frontend::OutputToken>& made) {
  std::vector<frontend::OutputToken> all;
  all.reserve(prompt.size() + made.size());
  for (const frontend::PromptToken& token : prompt) all.push_back(token.token);
  all.insert(all.end(), made.begin(), made.end());
  return all;
}

// Both names of the same: vLLM's newer one, and the one that clients know.
void set_reasoning(OrderedJson& object, const OrderedJson& reasoning) {
  object["reasoning"] = reasoning;
  object["reasoning_content"] = reasoning;
}

// Content is null when the model did nothing but think.
OrderedJson chat_message(const ChoiceStyle& style,
                         const ChoiceState& state,
                         const PromptView& prompt) {
  OrderedJson message;
  message["role"] = style.role;
  const std::string text = style.echo ? *prompt.text + state.text : state.text;
  const bool only_thought = text.empty() && !state.reasoning.empty();
  message["content"] = only_thought ? OrderedJson() : OrderedJson(text);
  message["refusal"] = nullptr;
  message["annotations"] = nullptr;
  message["audio"] = nullptr;
  message["function_call"] = nullptr;
  const bool shown = style.include_reasoning && !state.reasoning.empty();
  set_reasoning(message, shown ? OrderedJson(state.reasoning) : OrderedJson());
  return message;
}

OrderedJson chat_chunk(int32_t index, OrderedJson delta) {
  OrderedJson choice;
  choice["index"] = index;
  choice["delta"] = std::move(delta);
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = nullptr;
  return choice;
}

OrderedJson text_chunk(int32_t index, const std::string& text) {
  OrderedJson choice;
  choice["index"] = index;
  choice["text"] = text;
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = nullptr;
  return choice;
}

}  // namespace

std::vector<OrderedJson> opening_choices(const ChoiceStyle& style,
                                         ChoiceState& state,
                                         const PromptView& prompt) {
  std::vector<OrderedJson> out;
  if (style.chat) {
    OrderedJson delta;
    delta["role"] = style.role;
    delta["content"] = "";
    out.push_back(chat_chunk(state.index, std::move(delta)));
    if (style.echo && !prompt.text->empty())
      out.push_back(chat_chunk(state.index, OrderedJson{{"content", *prompt.text}}));
    return out;
  }
  const bool echo_now =
      style.echo && !style.logprobs;  // else with the log-probabilities, when they come
  if (!echo_now && !style.return_token_ids) return out;
  OrderedJson choice = text_chunk(state.index, echo_now ? *prompt.text : std::string());
  if (style.return_token_ids) choice["prompt_token_ids"] = *prompt.ids;
  out.push_back(std::move(choice));
  return out;
}

OrderedJson stream_choice(const ChoiceStyle& style,
                          ChoiceState& state,
                          const frontend::OutputDelta& delta) {
  OrderedJson choice;
  if (style.chat) {
    OrderedJson content = OrderedJson::object();
    if (!delta.reasoning.empty()) set_reasoning(content, delta.reasoning);
    const bool nothing_else =
        delta.finish == engine::FinishReason::kNone && delta.reasoning.empty();
    if (!delta.text.empty() || nothing_else) content["content"] = delta.text;
    choice = chat_chunk(state.index, std::move(content));
    if (style.logprobs && !delta.tokens.empty()) {
      choice["logprobs"] = chat_logprobs_json(delta.tokens, style.tokens);
    }
  } else {
    std::string text;
    if (style.echo && style.logprobs) {
      for (const frontend::PromptToken& token : delta.prompt) text += token.token.token.bytes;
    }
    choice = text_chunk(state.index, text + delta.text);
    if (style.logprobs && (!delta.tokens.empty() || !delta.prompt.empty())) {
      choice["logprobs"] = completion_logprobs_json(
          style.echo ? echoed_tokens(delta.prompt, delta.tokens) : delta.tokens,
          style.tokens,
          state.text_offset);
    }
  }
  if (style.return_token_ids) choice["token_ids"] = token_ids_json(delta.tokens);
  if (delta.finish != engine::FinishReason::kNone) {
    choice["finish_reason"] = finish_reason_json(delta.finish);
    choice["stop_reason"] = stop_reason_json(delta.stop_reason);
  }
  return choice;
}

OrderedJson whole_choice(const ChoiceStyle& style, ChoiceState& state, const PromptView& prompt) {
  OrderedJson choice;
  choice["index"] = state.index;
  if (style.chat) {
    choice["message"] = chat_message(style, state, prompt);
  } else {
    choice["text"] = style.echo ? *prompt.text + state.text : state.text;
  }
  choice["logprobs"] = nullptr;
  if (style.logprobs && style.chat) {
    choice["logprobs"] = chat_logprobs_json(state.tokens, style.tokens);
  } else if (style.logprobs) {
    choice["logprobs"] = completion_logprobs_json(
        style.echo ? echoed_tokens(state.prompt, state.tokens) : state.tokens,
        style.tokens,
        state.text_offset);
  }
  choice["finish_reason"] = finish_reason_json(state.finish);
  choice["stop_reason"] = stop_reason_json(state.stop_reason);
  choice["token_ids"] = style.return_token_ids ? token_ids_json(state.tokens) : OrderedJson();
  if (!style.chat) {
    choice["prompt_token_ids"] = style.return_token_ids ? OrderedJson(*prompt.ids) : OrderedJson();
    choice["prompt_logprobs"] =
        style.prompt_logprobs ? prompt_logprobs_json(state.prompt) : OrderedJson();
  }
  return choice;
}

}  // namespace tandem::serve
