#include "serve/answer_json.h"

#include <algorithm>
#include <cmath>

namespace tandem::serve {
namespace {

// JSON has no infinity; vLLM's floor.
double finite(float logprob) {
  return std::isfinite(logprob) ? std::max(logprob, -9999.0f) : -9999.0;
}

std::string token_name(const frontend::TokenText& token, TokenStyle style) {
  return style.as_ids ? fmt::format("token_id:{}", token.id) : token.text;
}

OrderedJson bytes_json(const std::string& bytes) {
  OrderedJson out = OrderedJson::array();
  for (const char byte : bytes) out.push_back(static_cast<unsigned char>(byte));
  return out;
}

int64_t characters(const std::string& text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
}

OrderedJson chance_json(const frontend::TokenText& token, float logprob, TokenStyle style) {
  OrderedJson out;
  out["token"] = token_name(token, style);
  out["logprob"] = finite(logprob);
  out["bytes"] = bytes_json(token.bytes);
  return out;
}

}  // namespace

OrderedJson head_json(const AnswerHead& head) {
  OrderedJson out;
  out["id"] = head.id;
  out["object"] = head.object;
  out["created"] = head.created;
  out["model"] = head.model;
  return out;
}

OrderedJson usage_json(const Usage& usage) {
  OrderedJson out;
  out["prompt_tokens"] = usage.prompt_tokens;
  out["total_tokens"] = usage.prompt_tokens + usage.completion_tokens;
  out["completion_tokens"] = usage.completion_tokens;
  out["prompt_tokens_details"] = nullptr;
  if (usage.with_details) out["prompt_tokens_details"] = {{"cached_tokens", usage.cached_tokens}};
  if (usage.reasoning_tokens)
    out["completion_tokens_details"] = {{"reasoning_tokens", *usage.reasoning_tokens}};
  return out;
}

OrderedJson stop_reason_json(const std::variant<std::monostate, std::string, int32_t>& reason) {
  if (const auto* text = std::get_if<std::string>(&reason)) return *text;
  if (const auto* id = std::get_if<int32_t>(&reason)) return *id;
  return nullptr;
}

OrderedJson finish_reason_json(engine::FinishReason finish) {
  switch (finish) {
    case engine::FinishReason::kNone:
      return nullptr;
    case engine::FinishReason::kStop:
      return "stop";
    case engine::FinishReason::kLength:
      return "length";
    case engine::FinishReason::kRepetition:
      return "repetition";
    case engine::FinishReason::kAbort:
      return "abort";
    case engine::FinishReason::kError:
      return "error";
  }
  return nullptr;
}

OrderedJson chat_logprobs_json(const std::vector<frontend::OutputToken>& tokens, TokenStyle style) {
  OrderedJson content = OrderedJson::array();
  for (const frontend::OutputToken& token : tokens) {
    OrderedJson entry = chance_json(token.token, token.logprob, style);
    entry["top_logprobs"] = OrderedJson::array();
    for (const frontend::TokenChance& chance : token.top) {
      entry["top_logprobs"].push_back(chance_json(chance.token, chance.logprob, style));
    }
    content.push_back(std::move(entry));
  }
  OrderedJson out;
  out["content"] = std::move(content);
  return out;
}

OrderedJson completion_logprobs_json(const std::vector<frontend::OutputToken>& tokens,
                                     TokenStyle style,
                                     int64_t& offset) {
  OrderedJson offsets = OrderedJson::array();
  OrderedJson logprobs = OrderedJson::array();
  OrderedJson names = OrderedJson::array();
  OrderedJson tops = OrderedJson::array();
  for (const frontend::OutputToken& token : tokens) {
    const std::string name = token_name(token.token, style);
    offsets.push_back(offset);
    offset += characters(name);
    names.push_back(name);
    if (!token.has_logprobs) {
      logprobs.push_back(nullptr);
      tops.push_back(nullptr);
      continue;
    }
    logprobs.push_back(finite(token.logprob));
    OrderedJson top = OrderedJson::object();
    for (const frontend::TokenChance& chance : token.top) {
      top[token_name(chance.token, style)] = finite(chance.logprob);
    }
    top[name] = finite(token.logprob);  // the drawn token is always listed
    tops.push_back(std::move(top));
  }
  OrderedJson out;
  out["text_offset"] = std::move(offsets);
  out["token_logprobs"] = std::move(logprobs);
  out["tokens"] = std::move(names);
  out["top_logprobs"] = std::move(tops);
  return out;
}

OrderedJson prompt_logprobs_json(const std::vector<frontend::PromptToken>& tokens) {
  OrderedJson out = OrderedJson::array();
  for (const frontend::PromptToken& prompt : tokens) {
    const frontend::OutputToken& token = prompt.token;
    if (!token.has_logprobs) {
      out.push_back(nullptr);
      continue;
    }
    const auto entry = [](float logprob, int32_t rank, const std::string& text) {
      OrderedJson value;
      value["logprob"] = finite(logprob);
      value["rank"] = rank;
      value["decoded_token"] = text;
      return value;
    };
    OrderedJson chances = OrderedJson::object();
    chances[std::to_string(token.token.id)] = entry(token.logprob, token.rank, token.token.text);
    for (const frontend::TokenChance& chance : token.top) {
      if (chance.token.id == token.token.id) continue;
      chances[std::to_string(chance.token.id)] =
          entry(chance.logprob, chance.rank, chance.token.text);
    }
    out.push_back(std::move(chances));
  }
  return out;
}

OrderedJson token_ids_json(const std::vector<frontend::OutputToken>& tokens) {
  OrderedJson out = OrderedJson::array();
  for (const frontend::OutputToken& token : tokens) out.push_back(token.token.id);
  return out;
}

}  // namespace tandem::serve
