#include "frontend/generation.h"

#include <utility>

#include "base/utf8.h"

namespace tandem::frontend {

Generation::Choice::Choice(const GenerationSetup& setup)
    : detokenizer(*setup.tokenizer, setup.skip_special_tokens),
      matcher(setup.stop, setup.include_stop_str_in_output) {
  detokenizer.prime(setup.prompt);
}

Generation::Generation(GenerationSetup setup, std::shared_ptr<OutputListener> listener)
    : setup_(std::move(setup)), listener_(std::move(listener)) {
  choices_.reserve(static_cast<size_t>(setup_.choices));
  for (int32_t i = 0; i < setup_.choices; ++i) choices_.emplace_back(setup_);
}

void Generation::on_event(engine::TokenEvent event) {
  {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
    if (std::exchange(queued_, true)) return;
  }
  setup_.pump->post(shared_from_this());
}

bool Generation::drain() {
  std::deque<engine::TokenEvent> events;
  {
    const std::lock_guard lock(mutex_);
    events.swap(events_);
  }
  for (engine::TokenEvent& event : events) process(event);
  const std::lock_guard lock(mutex_);
  if (!events_.empty()) return true;
  queued_ = false;
  return false;
}

void Generation::abort() {
  if (aborted_.exchange(true)) return;
  setup_.abort(setup_.id, -1);
}

void Generation::process(engine::TokenEvent& event) {
  Choice& choice = choices_[static_cast<size_t>(event.choice)];
  if (choice.over || !listener_) return;
  OutputDelta delta = begin_delta(event);
  add_prompt(event, delta);
  if (event.token >= 0) add_token(event, choice, delta);
  if (delta.finish == engine::FinishReason::kNone && event.finish != engine::FinishReason::kNone) {
    finish(event, choice, delta);
  }
  choice.over = delta.finish != engine::FinishReason::kNone;
  if (!aborted_) listener_->on_output(setup_.index, std::move(delta));
  // The listener holds this generation; letting go of it here ends the circle.
  bool all_over = true;
  for (const Choice& c : choices_) all_over = all_over && c.over;
  if (all_over) listener_.reset();
}

OutputDelta Generation::begin_delta(const engine::TokenEvent& event) const {
  OutputDelta delta;
  delta.choice = event.choice;
  delta.cached_tokens = event.cached_tokens;
  return delta;
}

void Generation::add_prompt(engine::TokenEvent& event, OutputDelta& delta) const {
  if (event.prompt_logprobs.empty()) return;
  delta.prompt.reserve(event.prompt_logprobs.size());
  for (size_t i = 0; i < event.prompt_logprobs.size(); ++i) {
    const engine::TokenLogprobs& chances = event.prompt_logprobs[i];
    PromptToken prompt;
    prompt.token.token = token_text(event.prompt_logprob_ids[i]);
    prompt.token.has_logprobs = i > 0;  // nothing comes before the first token
    prompt.token.logprob = chances.logprob;
    prompt.token.rank = chances.rank;
    int32_t rank = 1;
    for (const auto& [id, logprob] : chances.top) {
      prompt.token.top.push_back({token_text(id), logprob, rank++});
    }
    delta.prompt.push_back(std::move(prompt));
  }
}

void Generation::add_token(const engine::TokenEvent& event, Choice& choice, OutputDelta& delta) {
  ++choice.tokens;
  OutputToken token;
  token.token = token_text(event.token);
  if (event.logprobs) {
    token.has_logprobs = true;
    token.logprob = event.logprobs->logprob;
    token.rank = event.logprobs->rank;
    int32_t rank = 1;
    for (const auto& [id, logprob] : event.logprobs->top) {
      token.top.push_back({token_text(id), logprob, rank++});
    }
  }
  delta.tokens.push_back(std::move(token));
  // The token that ended it is not shown, unless the client wants to see what stopped it.
  const bool hidden =
      event.finish == engine::FinishReason::kStop && !setup_.include_stop_str_in_output;
  if (!hidden) push_text(choice.detokenizer.push(event.token), choice, delta);
}

void Generation::push_text(const std::string& piece, Choice& choice, OutputDelta& delta) {
  const StopMatcher::Result result = choice.matcher.push(piece, choice.tokens > setup_.min_tokens);
  delta.text += result.released;
  if (result.matched < 0) return;
  delta.finish = engine::FinishReason::kStop;
  delta.stop_reason = setup_.stop[static_cast<size_t>(result.matched)];
  setup_.abort(setup_.id, delta.choice);
}

void Generation::finish(const engine::TokenEvent& event, Choice& choice, OutputDelta& delta) {
  push_text(choice.detokenizer.flush(), choice, delta);
  if (delta.finish != engine::FinishReason::kNone)
    return;  // the flushed text completed a stop string
  delta.text += choice.matcher.flush();
  delta.finish = event.finish;
  if (event.stop_token) delta.stop_reason = *event.stop_token;
  if (event.error) delta.error = to_request_error(*event.error);
  if (event.finish == engine::FinishReason::kError && !delta.error) {
    delta.error = RequestError{ErrorKind::kInternal, "the request failed in the engine"};
  }
}

TokenText Generation::token_text(int32_t id) const {
  const std::string_view bytes = setup_.tokenizer->token_bytes(id);
  return {id, utf8_replace_invalid(bytes), std::string(bytes)};
}

}  // namespace tandem::frontend
