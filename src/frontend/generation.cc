#include "frontend/generation.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"

namespace tandem::frontend {

Generation::Choice::Choice(const GenerationSetup& setup)
    : detokenizer(*setup.tokenizer, setup.skip_special_tokens),
      matcher(setup.stop, setup.include_stop_str_in_output) {
  detokenizer.prime(setup.prompt);
  if (setup.marks) splitter.emplace(*setup.marks, setup.reasoning);
}

Generation::Generation(GenerationSetup setup, std::shared_ptr<OutputListener> listener)
    : setup_(std::move(setup)), listener_(std::move(listener)) {
  choices_.reserve(static_cast<size_t>(setup_.choices));
  for (int32_t i = 0; i < setup_.choices; ++i) choices_.emplace_back(setup_);
}

void Generation::on_event(engine::TokenEvent event) {
  const TimePoint now = setup_.clock->now();
  {
    const std::lock_guard lock(mutex_);
    events_.push_back({std::move(event), now});
    if (std::exchange(queued_, true)) return;
  }
  setup_.pump->post(shared_from_this());
}

bool Generation::drain() {
  std::deque<TimedEvent> events;
  {
    const std::lock_guard lock(mutex_);
    events.swap(events_);
  }
  for (TimedEvent& event : events) process(event);
  const std::lock_guard lock(mutex_);
  if (!events_.empty()) return true;
  queued_ = false;
  return false;
}

void Generation::abort() {
  if (aborted_.exchange(true)) return;
  setup_.abort(setup_.id, -1);
}

void Generation::process(TimedEvent& timed) {
  engine::TokenEvent& event = timed.event;
  Choice& choice = choices_[static_cast<size_t>(event.choice)];
  if (choice.over || !listener_) return;
  OutputDelta delta = begin_delta(event);
  add_prompt(event, delta);
  if (event.token >= 0) {
    note_token(timed.time, choice);
    add_token(event, choice, delta);
  }
  if (delta.finish == engine::FinishReason::kNone && event.finish != engine::FinishReason::kNone) {
    finish(event, choice, delta);
  }
  choice.over = delta.finish != engine::FinishReason::kNone;
  if (choice.over) note_end(timed, choice, delta.finish);
  if (!aborted_) listener_->on_output(setup_.index, std::move(delta));
  // The listener holds this generation; letting go of it here ends the circle.
  bool all_over = true;
  for (const Choice& c : choices_) all_over = all_over && c.over;
  if (all_over) listener_.reset();
}

void Generation::note_token(TimePoint time, Choice& choice) {
  const TimePoint last = choice.last_token;
  choice.last_token = time;
  if (choice.tokens == 0) choice.first_token = time;
  if (!setup_.observer) return;
  if (choice.tokens == 0) {
    setup_.observer->on_first_token(time - setup_.arrival);
  } else {
    setup_.observer->on_next_token(time - last);
  }
}

void Generation::note_end(const TimedEvent& timed,
                          const Choice& choice,
                          engine::FinishReason finish) {
  longest_output_ = std::max(longest_output_, choice.tokens);
  if (!setup_.observer) return;
  ChoiceReport report;
  report.finish = finish;
  report.prompt_tokens = static_cast<int32_t>(setup_.prompt.size());
  report.cached_tokens = timed.event.cached_tokens;
  report.output_tokens = choice.tokens;
  report.max_tokens = setup_.max_tokens;
  report.total = timed.time - setup_.arrival;
  const TimePoint scheduled = timed.event.scheduled;
  if (scheduled != TimePoint{}) {
    report.queued = std::max(Duration{}, scheduled - setup_.arrival);
    if (choice.tokens > 0) {
      report.prefill = choice.first_token - scheduled;
      report.decode = choice.last_token - choice.first_token;
      report.computed = choice.last_token - scheduled;
    }
  }
  setup_.observer->on_choice_end(report);
  bool all_over = true;
  for (const Choice& c : choices_) all_over = all_over && c.over;
  if (all_over) setup_.observer->on_generation_end(setup_.choices, longest_output_);
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
  std::string piece = hidden ? std::string() : choice.detokenizer.push(event.token);
  if (choice.splitter) {
    const std::string_view spelling = setup_.tokenizer->token_bytes(event.token);
    if (choice.splitter->take(event.token, piece, spelling)) ++delta.reasoning_tokens;
  }
  if (!hidden) push_text(piece, choice, delta);
}

// Shows text that no stop string can take back.
void Generation::release(const std::string& text, Choice& choice, OutputDelta& delta) {
  if (!choice.splitter) {
    delta.text += text;
    return;
  }
  const ReasoningSplitter::Parts parts = choice.splitter->split(text);
  delta.reasoning += parts.thought;
  delta.text += parts.said;
}

void Generation::push_text(const std::string& piece, Choice& choice, OutputDelta& delta) {
  const StopMatcher::Result result = choice.matcher.push(piece, choice.tokens > setup_.min_tokens);
  release(result.released, choice, delta);
  if (result.matched < 0) return;
  delta.finish = engine::FinishReason::kStop;
  delta.stop_reason = setup_.stop[static_cast<size_t>(result.matched)];
  setup_.abort(setup_.id, delta.choice);
}

void Generation::finish(const engine::TokenEvent& event, Choice& choice, OutputDelta& delta) {
  push_text(choice.detokenizer.flush(), choice, delta);
  if (delta.finish != engine::FinishReason::kNone)
    return;  // the flushed text completed a stop string
  release(choice.matcher.flush(), choice, delta);
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
