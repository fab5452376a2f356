// EngineState, the way back: results of steps, events, ends.

#include <algorithm>

#include "base/check.h"
#include "base/log.h"
#include "engine/engine_state.h"
#include "engine/stop_rules.h"

namespace tandem::engine {

void EngineState::launch_failed(const Error& error) {
  TANDEM_CHECK(flights_used_ > 0);
  --flights_used_;
  fail_flight(flights_[(first_flight_ + flights_used_) % flights_.size()], error);
}

void EngineState::collect_failed(const Error& error) {
  TANDEM_CHECK(flights_used_ > 0);
  Flight& flight = flights_[first_flight_];
  first_flight_ = (first_flight_ + 1) % flights_.size();
  --flights_used_;
  fail_flight(flight, error);
}

// The device failed, not a request: those whose rows were in the step end, the others go on.
void EngineState::fail_flight(Flight& flight, const Error& error) {
  ++counters_.device_failures;
  ++counters_.consecutive_device_failures;
  for (const StepRows& rows : flight.rows) {
    --rows.sequence->in_flight;
    if (rows.sequence->state != SequenceState::kFinished)
      fail_request(*rows.sequence->request, error, /*distrust=*/true);
  }
  reap();
}

bool EngineState::row_valid(int32_t row, const model::StepResult& result) const {
  const kernels::SampleResult& sampled = result.rows[static_cast<size_t>(row)];
  return sampled.invalid == 0 && sampled.id >= 0 && sampled.id < config_.vocabulary;
}

bool EngineState::prompt_rows_valid(const StepRows& rows, const model::StepResult& result) const {
  const int32_t prompt_rows = rows.prompt_rows_end - rows.prompt_rows_begin;
  for (int32_t i = 0; i < prompt_rows; ++i)
    if (result.rows[static_cast<size_t>(rows.first_prompt_row + i)].invalid != 0) return false;
  return true;
}

// Either the client left no token to draw, or the numbers are broken.
void EngineState::fail_invalid_rows(Sequence& sequence) {
  if (sequence.sampling.forbids_everything(sequence.output())) {
    fail_request(*sequence.request,
                 {ErrorCode::kInvalidArgument,
                  fmt::format("allowed_token_ids, bad_words and min_tokens together leave no token "
                              "to draw after {} tokens of output",
                              sequence.output().size()),
                  ""},
                 /*distrust=*/false);
    return;
  }
  ++counters_.corrupted;
  fail_request(*sequence.request,
               {ErrorCode::kInternal,
                "the model gave no valid probabilities for this request",
                "see the counter of corrupted requests"},
               /*distrust=*/true);
}

void EngineState::collected(const model::StepResult& result, TimePoint now) {
  TANDEM_CHECK(flights_used_ > 0);
  Flight& flight = flights_[first_flight_];
  const size_t top = result.rows.size() * static_cast<size_t>(std::max(0, result.max_top_logprobs));
  if (result.rows.size() != static_cast<size_t>(flight.logits_rows) ||
      result.top_ids.size() < top || result.top_logprobs.size() < top) {
    collect_failed({ErrorCode::kInternal, "the executor's result does not fit the step", ""});
    return;
  }
  first_flight_ = (first_flight_ + 1) % flights_.size();
  --flights_used_;
  counters_.consecutive_device_failures = 0;
  measure_step(flight, now);
  for (const StepRows& rows : flight.rows) {
    --rows.sequence->in_flight;
    if (rows.sequence->state != SequenceState::kFinished) take_rows(rows, result);
  }
  reap();
}

void EngineState::take_rows(const StepRows& rows, const model::StepResult& result) {
  Sequence& sequence = *rows.sequence;
  if (!prompt_rows_valid(rows, result) ||
      (rows.sample_row >= 0 && !row_valid(rows.sample_row, result))) {
    fail_invalid_rows(sequence);
    return;
  }
  if (rows.prompt_rows_end > rows.prompt_rows_begin) take_prompt_rows(rows, result);
  if (rows.sample_row >= 0) {
    take_draws(rows, result);
  } else if (rows.hold == sequence.hold) {
    note_collected(sequence, rows.start + rows.count);
  }
}

// Token by token, as if each draft's row had been a step of its own: the first draw that is not the
// draft behind it ends the run. Rows behind it mean nothing, whatever they hold, and are computed
// again over the same slots.
void EngineState::take_draws(const StepRows& rows, const model::StepResult& result) {
  Sequence& sequence = *rows.sequence;
  --sequence.placeholders;
  sequence.drafts_in_flight = 0;
  const int32_t certain = rows.start + rows.count - rows.drafts;
  for (int32_t i = 0; i <= rows.drafts; ++i) {
    const int32_t row = rows.sample_row + i;
    if (!row_valid(row, result)) {
      fail_invalid_rows(sequence);
      return;
    }
    const int32_t token = result.rows[static_cast<size_t>(row)].id;
    sequence.tokens.push_back(token);
    sequence.sampling.add_output(token);
    const bool accepted = i < rows.drafts && sequence.drafts[static_cast<size_t>(i)] == token;
    if (accepted) ++counters_.accepted_tokens;
    if (rows.hold == sequence.hold) note_collected(sequence, certain + i);
    take_token(sequence, row, result);
    if (sequence.state == SequenceState::kFinished) return;
    if (!accepted) break;
  }
  // The roll back. A sequence that was preempted meanwhile has no rows, or has them on the host.
  if (rows.drafts > 0) sequence.computed = std::min(sequence.computed, sequence.known() - 1);
  ask_for_drafts(sequence);
}

// The first `rows` rows are written and right.
void EngineState::note_collected(Sequence& sequence, int32_t rows) {
  sequence.collected = rows;
  store_blocks(sequence);
  if (sequence.choice == 0 && sequence.collected >= sequence.prompt_length())
    sequence.request->prompt_ready = true;
}

void EngineState::ask_for_drafts(Sequence& sequence) {
  sequence.drafts.clear();
  if (draft_source_ == nullptr || sequence.state != SequenceState::kRunning) return;
  // The last token that fits is drawn by the row before it.
  const int32_t most = std::min(config_.max_drafts, sequence.max_length - 1 - sequence.length());
  if (most <= 0) return;
  draft_source_->propose({.request = sequence.request->request.id,
                          .choice = sequence.choice,
                          .prompt_length = sequence.prompt_length(),
                          .tokens = sequence.tokens,
                          .most = most},
                         sequence.drafts);
  if (sequence.drafts.size() > static_cast<size_t>(most))
    sequence.drafts.resize(static_cast<size_t>(most));
  const auto wrong = std::ranges::find_if(
      sequence.drafts, [this](int32_t id) { return id < 0 || id >= config_.vocabulary; });
  sequence.drafts.erase(wrong, sequence.drafts.end());
}

void EngineState::take_prompt_rows(const StepRows& rows, const model::StepResult& result) {
  LiveRequest& live = *rows.sequence->request;
  const int32_t top = live.request.sampling.prompt_top_logprobs;
  for (int32_t i = 0; i < rows.prompt_rows_end - rows.prompt_rows_begin; ++i)
    live.prompt_logprobs.push_back(logprobs_of(result, rows.first_prompt_row + i, top));
}

TokenLogprobs EngineState::logprobs_of(const model::StepResult& result,
                                       int32_t row,
                                       int32_t top) const {
  const kernels::SampleResult& sampled = result.rows[static_cast<size_t>(row)];
  TokenLogprobs logprobs{sampled.logprob, sampled.rank, {}};
  const int32_t columns = std::min(top, result.max_top_logprobs);
  const size_t begin = static_cast<size_t>(row) * static_cast<size_t>(result.max_top_logprobs);
  for (int32_t i = 0; i < columns; ++i) {
    const size_t at = begin + static_cast<size_t>(i);
    if (result.top_ids[at] < 0) break;
    logprobs.top.emplace_back(result.top_ids[at], result.top_logprobs[at]);
  }
  return logprobs;
}

TokenEvent EngineState::event_of(const Sequence& sequence) const {
  TokenEvent event;
  event.choice = sequence.choice;
  event.cached_tokens = sequence.request->cached_tokens;
  event.scheduled = sequence.scheduled;
  event.preemptions = sequence.preemptions;
  return event;
}

// The last element of `tokens` has just been drawn in `row`.
void EngineState::take_token(Sequence& sequence, int32_t row, const model::StepResult& result) {
  LiveRequest& live = *sequence.request;
  const SamplingParams& params = live.request.sampling;
  TokenEvent event = event_of(sequence);
  event.token = sequence.tokens.back();
  const bool repeats = sequence.repetition.repeats(params.repetition, sequence.output());
  const StopDecision stop = stop_after(params,
                                       live.request.eos_ids,
                                       event.token,
                                       sequence.output_count(),
                                       sequence.known() >= sequence.max_length,
                                       repeats);
  event.finish = stop.reason;
  event.stop_token = stop.stop_token;
  if (params.top_logprobs >= 0) event.logprobs = logprobs_of(result, row, params.top_logprobs);
  if (sequence.choice == 0 && !live.prompt_logprobs.empty()) {
    event.prompt_logprobs = std::move(live.prompt_logprobs);
    event.prompt_logprob_ids = live.request.prompt;
    live.prompt_logprobs.clear();
  }
  ++counters_.generation_tokens;
  // The blocks are free before the client hears of the end.
  if (stop.reason != FinishReason::kNone) finish(sequence, stop.reason);
  publish(sequence, std::move(event));
  if (live.sink_failed)
    for (Sequence& choice : live.sequences)
      if (choice.state != SequenceState::kFinished) finish(choice, FinishReason::kAbort);
}

// Full blocks whose rows are known to be written may be found by others.
void EngineState::store_blocks(Sequence& sequence) {
  if (!config_.prefix_caching) return;
  const auto block_tokens = static_cast<size_t>(config_.block_tokens);
  const LiveRequest& live = *sequence.request;
  for (; sequence.offered < sequence.collected / config_.block_tokens; ++sequence.offered) {
    const auto i = static_cast<size_t>(sequence.offered);
    const auto tokens =
        std::span<const int32_t>(sequence.tokens).subspan(i * block_tokens, block_tokens);
    const kv::PrefixHash parent = i == 0 ? live.root : sequence.hashes[i - 1];
    if (i == sequence.hashes.size()) {
      const auto form =
          config_.form.form(sequence.offered * config_.block_tokens, sequence.prompt_length());
      sequence.hashes.push_back(hasher_.block(parent, static_cast<int32_t>(form), tokens));
    }
    blocks_.store(sequence.blocks[i], sequence.hashes[i], parent, tokens);
  }
}

// "May not throw": if it does all the same, that request alone pays.
void EngineState::publish(Sequence& sequence, TokenEvent event) {
  LiveRequest& live = *sequence.request;
  if (live.sink_failed) return;
  try {
    live.request.sink->on_event(std::move(event));
  } catch (...) {
    live.sink_failed = true;
    log_error("request {}: its event sink threw; the request is dropped",
              log_safe(live.request.id));
  }
}

// With `distrust`, what the request's blocks hold may be wrong: nobody else may find it.
void EngineState::fail_request(LiveRequest& request, const Error& error, bool distrust) {
  if (distrust)
    for (Sequence& sequence : request.sequences) blocks_.forget(sequence.blocks);
  for (Sequence& sequence : request.sequences) {
    if (sequence.state == SequenceState::kFinished) continue;
    TokenEvent event = event_of(sequence);
    event.finish = FinishReason::kError;
    event.error = error;
    finish(sequence, FinishReason::kError);
    publish(sequence, std::move(event));
  }
}

void EngineState::finish(Sequence& sequence, FinishReason reason) {
  std::erase(sequence.state == SequenceState::kRunning ? running_ : waiting_, &sequence);
  sequence.state = SequenceState::kFinished;
  blocks_.release(sequence.blocks);
  release_host(sequence);
  switch (reason) {
    case FinishReason::kNone:
      break;
    case FinishReason::kStop:
      ++counters_.finished_stop;
      break;
    case FinishReason::kLength:
      ++counters_.finished_length;
      break;
    case FinishReason::kRepetition:
      ++counters_.finished_repetition;
      break;
    case FinishReason::kAbort:
      ++counters_.finished_abort;
      break;
    case FinishReason::kError:
      ++counters_.finished_error;
      break;
  }
  LiveRequest& live = *sequence.request;
  if (--live.unfinished > 0) return;
  if (!live.admitted) --counters_.queued;
  dead_.push_back(&live);
}

void EngineState::reap() {
  for (size_t i = 0; i < dead_.size();) {
    LiveRequest& live = *dead_[i];
    const bool named = std::any_of(live.sequences.begin(), live.sequences.end(), [](const auto& s) {
      return s.in_flight > 0 || s.transfers > 0;
    });
    if (named) {
      ++i;
      continue;
    }
    dead_[i] = dead_.back();
    dead_.pop_back();
    std::string id = live.request.id;
    requests_.erase(id);
    ended_.push_back(std::move(id));
  }
}

void EngineState::measure_step(const Flight& flight, TimePoint now) {
  const Duration time = now - flight.launched;
  counters_.step_time_sum += time;
  // What recomputing costs: steps that are prompts for the most part.
  const auto sequences = static_cast<int32_t>(flight.rows.size());
  if (flight.tokens - flight.drafts < 4 * sequences || time.count() <= 0) return;
  const double sample = static_cast<double>(time.count()) / flight.tokens;
  costs_.recompute_ns_per_token = smoothed(costs_.recompute_ns_per_token, sample);
}

// Rows that a sequence may have had when its last step was launched.
int32_t EngineState::rows_with_drafts(const Sequence& sequence) const {
  if (draft_source_ == nullptr) return 0;
  return std::min(sequence.known() + config_.max_drafts, sequence.max_length - 1);
}

bool EngineState::drafts_consistent(const Sequence& s) const {
  if (s.placeholders < 0 || s.placeholders > 1 || s.drafts_in_flight < 0) return false;
  if (s.drafts.size() > static_cast<size_t>(config_.max_drafts)) return false;
  if (s.drafts_in_flight > 0)
    return s.placeholders == 1 && s.in_flight == 1 &&
           s.drafts.size() == static_cast<size_t>(s.drafts_in_flight) &&
           s.computed <= s.known() + s.drafts_in_flight &&
           s.known() + s.drafts_in_flight < s.max_length;
  return s.computed <= s.length() &&
         (s.drafts.empty() || s.length() + static_cast<int32_t>(s.drafts.size()) < s.max_length);
}

bool EngineState::consistent() const {
  std::vector<int32_t> references(static_cast<size_t>(blocks_.pool().size()));
  const auto sorted = [](const std::vector<Sequence*>& list) {
    return std::is_sorted(list.begin(), list.end(), [](const Sequence* a, const Sequence* b) {
      return before(*a, *b);
    });
  };
  if (!sorted(running_) || !sorted(waiting_)) return false;
  for (const Sequence* s : waiting_)
    if (s->state != SequenceState::kWaiting || !s->blocks.empty() ||
        (s->swap == SwapState::kNone && s->computed != 0) || !drafts_consistent(*s) ||
        (s->drafts_in_flight == 0 && !s->drafts.empty()))
      return false;
  for (const Sequence* s : running_) {
    const int32_t held = static_cast<int32_t>(s->blocks.size());
    // Blocks that rejected drafts had stay for the tokens to come.
    const int32_t most = std::max({s->computed, s->shared, rows_with_drafts(*s)});
    if (s->state != SequenceState::kRunning || s->collected > s->computed ||
        s->length() > s->max_length || held < blocks_.blocks_for(s->computed) ||
        held > blocks_.blocks_for(most) || !drafts_consistent(*s))
      return false;
    for (const kv::BlockId block : s->blocks) ++references[static_cast<size_t>(block)];
  }
  for (const kv::Transfer& transfer : transfers_.under_way())
    for (const kv::BlockId block : transfer.device) ++references[static_cast<size_t>(block)];
  for (int32_t b = 0; b < blocks_.pool().size(); ++b)
    if (blocks_.pool().references(b) != references[static_cast<size_t>(b)]) return false;
  return blocks_.pool().consistent() && transfers_consistent() &&
         static_cast<int32_t>(running_.size()) <= budgets_.max_num_seqs;
}

}  // namespace tandem::engine
