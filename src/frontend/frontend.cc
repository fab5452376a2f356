#include "frontend/frontend.h"

#include <sys/random.h>

#include "base/check.h"
#include "base/ids.h"
#include "base/utf8.h"

namespace tandem::frontend {
namespace {

uint64_t random_seed() {
  uint64_t seed = 0;
  TANDEM_CHECK(::getrandom(&seed, sizeof(seed), 0) == sizeof(seed), "getrandom");
  return seed;
}

}  // namespace

Frontend::Frontend(FrontendConfig config,
                   const text::Tokenizer& tokenizer,
                   const text::ChatTemplate* chat_template,
                   engine::Engine& engine,
                   const Clock& clock)
    : config_(std::move(config)),
      tokenizer_(tokenizer),
      chat_template_(chat_template),
      engine_(engine),
      clock_(clock),
      pump_(config_.output_threads) {}

Checked<std::vector<int32_t>> Frontend::encode_text(std::string_view text,
                                                    bool add_special_tokens) const {
  const auto around =
      add_special_tokens ? text::SequenceTokens::kConfigured : text::SequenceTokens::kNone;
  auto ids = tokenizer_.encode(text, {.around = around, .parse_special = true});
  if (!ids) return std::unexpected(to_request_error(ids.error(), "prompt"));
  return std::move(*ids);
}

Checked<std::vector<int32_t>> Frontend::encode_chat(const ChatInput& input) const {
  if (!chat_template_) {
    return invalid("messages",
                   "cannot be rendered: the model has no chat template; use /v1/completions");
  }
  TANDEM_ASSIGN(const text::MarkedText rendered,
                render_chat(*chat_template_, config_.special_tokens, input, clock_));
  const auto around =
      input.add_special_tokens ? text::SequenceTokens::kConfigured : text::SequenceTokens::kNone;
  auto ids = tokenizer_.encode(rendered, around);
  if (!ids) return std::unexpected(to_request_error(ids.error(), "messages"));
  return std::move(*ids);
}

std::string Frontend::decode(const std::vector<int32_t>& ids, bool skip_special_tokens) const {
  return tokenizer_.decode(ids, skip_special_tokens);
}

TokenText Frontend::token_text(int32_t id) const {
  const std::string_view bytes = tokenizer_.token_bytes(id);
  return {id, utf8_replace_invalid(bytes), std::string(bytes)};
}

Checked<PreparedGeneration> Frontend::prepare(std::vector<int32_t> prompt,
                                              const GenerationOptions& options,
                                              std::optional<int64_t> default_max_tokens) const {
  PreparedGeneration out;
  TANDEM_ASSIGN(out.prompt, check_prompt(std::move(prompt), options, config_.limits));
  TANDEM_ASSIGN(out.options,
                validate_options(options,
                                 config_.defaults,
                                 config_.limits,
                                 static_cast<int64_t>(out.prompt.size()),
                                 default_max_tokens));
  TANDEM_TRY(add_bad_words(options.bad_words, out.options.sampling));
  if (!out.options.seeded) out.options.sampling.seed = random_seed();
  out.cache_salt = options.cache_salt;
  out.priority = static_cast<int32_t>(options.priority);
  if (options.split_reasoning && config_.reasoning_marks) {
    out.reasoning =
        reasoning_state(out.prompt, *config_.reasoning_marks, tokenizer_, config_.thinks_unasked);
  }
  return out;
}

// As in vLLM: a word is forbidden at the start of a text and after a blank, as different tokens
// stand for these.
Checked<void> Frontend::add_bad_words(const std::vector<std::string>& words,
                                      engine::SamplingParams& sampling) const {
  for (const std::string& word : words) {
    if (word.empty()) return invalid("bad_words", "must not hold an empty string");
    for (const std::string& form : {word, " " + word}) {
      auto ids =
          tokenizer_.encode(form, {.around = text::SequenceTokens::kNone, .parse_special = true});
      if (!ids) return std::unexpected(to_request_error(ids.error(), "bad_words"));
      if (ids->empty() || ids->size() > 256)
        return invalid("bad_words", "holds a word of {} tokens", ids->size());
      sampling.bad_words.push_back(std::move(*ids));
    }
  }
  return {};
}

Checked<std::shared_ptr<Generation>> Frontend::start(PreparedGeneration prepared,
                                                     int index,
                                                     std::shared_ptr<OutputListener> listener) {
  const TimePoint arrival = clock_.now();
  GenerationSetup setup;
  setup.id = random_id();
  setup.index = index;
  setup.choices = prepared.options.choices;
  setup.prompt = prepared.prompt;
  setup.stop = std::move(prepared.options.stop);
  setup.include_stop_str_in_output = prepared.options.include_stop_str_in_output;
  setup.skip_special_tokens = prepared.options.skip_special_tokens;
  setup.min_tokens = prepared.options.sampling.min_tokens;
  setup.max_tokens = prepared.options.sampling.max_tokens;
  setup.arrival = arrival;
  if (prepared.reasoning) {
    setup.marks = config_.reasoning_marks;
    setup.reasoning = *prepared.reasoning;
  }
  setup.clock = &clock_;
  setup.observer = config_.observer;
  setup.tokenizer = &tokenizer_;
  setup.abort = [this](const std::string& id, int32_t choice) { engine_.abort(id, choice); };
  setup.pump = &pump_;
  auto generation = std::make_shared<Generation>(std::move(setup), std::move(listener));

  engine::Request request;
  request.id = generation->id();
  request.arrival = arrival;
  request.prompt = std::move(prepared.prompt);
  request.sampling = std::move(prepared.options.sampling);
  request.choices = prepared.options.choices;
  request.priority = prepared.priority;
  request.cache_salt = std::move(prepared.cache_salt);
  request.eos_ids = config_.eos_ids;
  request.sink = generation;
  if (auto submitted = engine_.submit(std::move(request)); !submitted) {
    return std::unexpected(to_request_error(submitted.error()));
  }
  return generation;
}

}  // namespace tandem::frontend
