#include "serve/tokenize.h"

#include "serve/chat_request.h"

namespace tandem::serve {
namespace {

// A tokenized text may be longer than the context, but not without bound.
constexpr size_t kMaxDetokenizeIds = 4'000'000;

Checked<std::vector<int32_t>> encode_body(const OrderedJson& body,
                                          const frontend::Frontend& frontend) {
  const FieldReader fields(body);
  TANDEM_ASSIGN(const auto special, fields.boolean("add_special_tokens"));
  if (fields.find("messages")) {
    TANDEM_ASSIGN(const frontend::ChatInput chat, parse_chat_input(body));
    return frontend.encode_chat(chat);
  }
  TANDEM_ASSIGN(const auto prompt, fields.string("prompt"));
  if (!prompt) return invalid("prompt", "is required (or 'messages')");
  return frontend.encode_text(*prompt, special.value_or(true));
}

}  // namespace

Checked<OrderedJson> answer_tokenize(const OrderedJson& body, const frontend::Frontend& frontend) {
  const FieldReader fields(body);
  TANDEM_ASSIGN(const auto strings, fields.boolean("return_token_strs"));
  TANDEM_ASSIGN(const std::vector<int32_t> ids, encode_body(body, frontend));
  OrderedJson out;
  out["count"] = ids.size();
  out["max_model_len"] = frontend.config().limits.max_model_len;
  out["tokens"] = ids;
  out["token_strs"] = nullptr;
  if (strings.value_or(false)) {
    out["token_strs"] = OrderedJson::array();
    for (const int32_t id : ids) out["token_strs"].push_back(frontend.token_text(id).text);
  }
  return out;
}

Checked<OrderedJson> answer_detokenize(const OrderedJson& body,
                                       const frontend::Frontend& frontend) {
  const FieldReader fields(body);
  TANDEM_ASSIGN(const auto tokens, fields.integers("tokens", kMaxDetokenizeIds));
  if (!tokens) return invalid("tokens", "is required");
  const int64_t vocabulary = frontend.config().limits.vocabulary;
  std::vector<int32_t> ids;
  ids.reserve(tokens->size());
  for (const int64_t id : *tokens) {
    if (id < 0 || id >= vocabulary) {
      return invalid("tokens", "must hold token ids from 0 to {}, found {}", vocabulary - 1, id);
    }
    ids.push_back(static_cast<int32_t>(id));
  }
  OrderedJson out;
  out["prompt"] = frontend.decode(ids, false);
  return out;
}

}  // namespace tandem::serve
