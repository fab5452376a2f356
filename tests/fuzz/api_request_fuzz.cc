// Bodies of /v1/chat/completions, /v1/completions: JSON, schema, validation. What is accepted is
// within the limits; what is refused gives an error that is JSON. Input: the body.
#include <algorithm>
#include <variant>

#include "base/json.h"
#include "frontend/validate.h"
#include "fuzz_input.h"
#include "serve/api_error.h"
#include "serve/chat_request.h"
#include "serve/completion_request.h"

namespace {

using tandem::OrderedJson;
using tandem::frontend::Checked;

constexpr size_t kMaxPrompts = 16;

tandem::frontend::RequestLimits limits() {
  tandem::frontend::RequestLimits out;
  out.max_model_len = 512;
  out.vocabulary = 1024;
  out.max_prompts = kMaxPrompts;
  return out;
}

void check_error(const tandem::frontend::RequestError& error) {
  const auto response = tandem::serve::error_response(error);
  TANDEM_CHECK(response.status >= 400 && response.status < 600);
  TANDEM_CHECK(tandem::parse_json(response.body).has_value());
}

void check_ids(const std::vector<int32_t>& ids, int64_t vocabulary) {
  TANDEM_CHECK(
      std::all_of(ids.begin(), ids.end(), [&](int32_t id) { return id >= 0 && id < vocabulary; }));
}

void validate(std::vector<int32_t> ids, const tandem::frontend::GenerationOptions& options) {
  const auto bounds = limits();
  const auto prompt = tandem::frontend::check_prompt(std::move(ids), options, bounds);
  if (!prompt) return check_error(prompt.error());
  check_ids(*prompt, bounds.vocabulary);
  const auto length = static_cast<int64_t>(prompt->size());
  TANDEM_CHECK(length > 0 && length < bounds.max_model_len);
  const auto valid = tandem::frontend::validate_options(options, {}, bounds, length, 16);
  if (!valid) return check_error(valid.error());
  TANDEM_CHECK(valid->choices >= 1 && valid->choices <= bounds.max_choices);
  TANDEM_CHECK(static_cast<int64_t>(valid->stop.size()) <= bounds.max_stop_strings);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto body = tandem::parse_ordered_json(text);
  if (!body || !body->is_object()) return 0;
  if (const auto chat = tandem::serve::parse_chat_request(*body)) {
    TANDEM_CHECK(chat->input.messages.is_array() && !chat->input.messages.empty());
    TANDEM_CHECK(tandem::parse_json(tandem::dump_json(chat->input.messages)).has_value());
    validate({1, 2, 3}, chat->options);
  } else {
    check_error(chat.error());
  }
  auto completion = tandem::serve::parse_completion_request(*body, kMaxPrompts);
  if (!completion) {
    check_error(completion.error());
    return 0;
  }
  TANDEM_CHECK(!completion->prompts.empty() && completion->prompts.size() <= kMaxPrompts);
  for (auto& prompt : completion->prompts) {
    auto* ids = std::get_if<std::vector<int32_t>>(&prompt);
    validate(ids ? std::move(*ids) : std::vector<int32_t>{5}, completion->options);
  }
  return 0;
}
