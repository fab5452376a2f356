#include "serve/completion_request.h"

namespace tandem::serve {
namespace {

std::unexpected<RequestError> wrong_prompt(const OrderedJson& found) {
  return invalid(
      "prompt",
      "must be a string, a list of strings, a list of token ids or a list of such lists; found {}",
      describe(found));
}

Checked<std::vector<int32_t>> read_ids(const OrderedJson& list) {
  if (list.empty()) return invalid("prompt", "must not hold an empty list");
  std::vector<int32_t> ids;
  ids.reserve(list.size());
  for (const OrderedJson& id : list) {
    if (!id.is_number_integer()) return wrong_prompt(id);
    // Out of the vocabulary either way; check_prompt says so by name and number.
    const bool fits = id.is_number_unsigned()
                          ? id.get<uint64_t>() <= INT32_MAX
                          : id.get<int64_t>() >= INT32_MIN && id.get<int64_t>() <= INT32_MAX;
    if (!fits) return invalid("prompt", "holds {}, which is no token id", id.dump());
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

Checked<std::vector<Prompt>> read_prompts(const OrderedJson* prompt, size_t most) {
  if (!prompt) return invalid("prompt", "is required");
  std::vector<Prompt> out;
  if (prompt->is_string()) {
    out.emplace_back(prompt->get<std::string>());
    return out;
  }
  if (!prompt->is_array() || prompt->empty()) return wrong_prompt(*prompt);
  const OrderedJson& first = (*prompt)[0];
  if (first.is_number()) {
    TANDEM_ASSIGN(auto ids, read_ids(*prompt));
    out.emplace_back(std::move(ids));
    return out;
  }
  if (prompt->size() > most) {
    return std::unexpected(RequestError{
        frontend::ErrorKind::kTooLarge,
        fmt::format("'prompt' has {} entries, at most {} are accepted", prompt->size(), most),
        "prompt"});
  }
  out.reserve(prompt->size());
  for (const OrderedJson& entry : *prompt) {
    if (entry.type() != first.type()) return wrong_prompt(entry);
    if (entry.is_string()) {
      out.emplace_back(entry.get<std::string>());
    } else if (entry.is_array()) {
      TANDEM_ASSIGN(auto ids, read_ids(entry));
      out.emplace_back(std::move(ids));
    } else {
      return wrong_prompt(entry);
    }
  }
  return out;
}

// echo: true with max_tokens: 0 scores the prompt. One token is made and not shown, since a step
// yields one.
void apply_score_only(CompletionRequest& out) {
  if (!out.echo || !out.options.max_tokens || *out.options.max_tokens != 0) return;
  out.score_only = true;
  out.options.max_tokens = 1;
}

Checked<void> read_best_of(const FieldReader& fields, const frontend::GenerationOptions& options) {
  TANDEM_ASSIGN(const auto best_of, fields.integer("best_of"));
  if (best_of && *best_of != options.n.value_or(1)) {
    return invalid("best_of", "other than n is not supported by this server, found {}", *best_of);
  }
  return {};
}

}  // namespace

Checked<CompletionRequest> parse_completion_request(const OrderedJson& body, size_t max_prompts) {
  const FieldReader fields(body);
  CompletionRequest out;
  TANDEM_ASSIGN(const auto model, fields.string("model"));
  out.model = model.value_or("");
  TANDEM_ASSIGN(out.prompts, read_prompts(fields.find("prompt"), max_prompts));
  TANDEM_TRY(refuse_unbuilt_fields(fields, Endpoint::kCompletions));
  TANDEM_ASSIGN(out.options, read_generation_options(fields, Endpoint::kCompletions));
  TANDEM_TRY(read_best_of(fields, out.options));
  TANDEM_ASSIGN(const auto logprobs, fields.integer("logprobs"));
  out.options.logprobs = logprobs;
  TANDEM_ASSIGN(out.stream, read_stream_options(fields));
  if (out.stream.stream && out.options.prompt_logprobs) {
    return invalid("prompt_logprobs", "is not available with \"stream\": true");
  }
  TANDEM_ASSIGN(const auto echo, fields.boolean("echo"));
  out.echo = echo.value_or(false);
  apply_score_only(out);
  // The echoed prompt's log-probabilities are the prompt's.
  if (out.echo && logprobs && !out.options.prompt_logprobs) out.options.prompt_logprobs = logprobs;
  TANDEM_ASSIGN(const auto special, fields.boolean("add_special_tokens"));
  out.add_special_tokens = special.value_or(true);
  TANDEM_ASSIGN(const auto ids, fields.boolean("return_token_ids"));
  out.return_token_ids = ids.value_or(false);
  TANDEM_ASSIGN(const auto as_ids, fields.boolean("return_tokens_as_token_ids"));
  out.return_tokens_as_token_ids = as_ids.value_or(false);
  return out;
}

}  // namespace tandem::serve
