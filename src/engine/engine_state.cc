#include "engine/engine_state.h"

#include <algorithm>

#include "base/check.h"

namespace tandem::engine {

Expected<std::unique_ptr<LiveRequest>> make_live_request(const EngineConfig& config,
                                                         Request request,
                                                         kv::PrefixHasher& hasher) {
  TANDEM_TRY(validate_request(config, request));
  auto live = std::make_unique<LiveRequest>();
  live->request = std::move(request);
  Request& r = live->request;
  if (!r.resume_output.empty()) {
    live->resumed = r.prompt;
    live->resumed.insert(live->resumed.end(), r.resume_output.begin(), r.resume_output.end());
  }
  const auto prompt = static_cast<int64_t>(r.prompt.size());
  live->sequences.resize(static_cast<size_t>(r.choices));
  live->unfinished = r.choices;
  for (int32_t choice = 0; choice < r.choices; ++choice) {
    Sequence& sequence = live->sequences[static_cast<size_t>(choice)];
    sequence.request = live.get();
    sequence.choice = choice;
    sequence.max_length = static_cast<int32_t>(
        std::min(prompt + r.sampling.max_tokens, int64_t{config.length_limit()}));
  }
  if (!config.prefix_caching) return live;

  live->root = hasher.root({.fingerprint = config.fingerprint,
                            .tenant_salt = r.tenant_salt,
                            .cache_salt = r.cache_salt,
                            .adapter = r.adapter});
  const auto tokens = live->first_tokens();
  const auto block_tokens = static_cast<size_t>(config.block_tokens);
  live->hashes.reserve(tokens.size() / block_tokens);
  kv::PrefixHash parent = live->root;
  for (size_t i = 0; i + block_tokens <= tokens.size(); i += block_tokens) {
    const auto form = config.form.form(static_cast<int32_t>(i), static_cast<int32_t>(prompt));
    parent = hasher.block(parent, static_cast<int32_t>(form), tokens.subspan(i, block_tokens));
    live->hashes.push_back(parent);
  }
  return live;
}

EngineState::EngineState(const EngineConfig& config,
                         kv::PrefixHasher hasher,
                         bool copies_blocks,
                         int32_t host_blocks,
                         DraftSource* drafts)
    : config_(config),
      budgets_{.max_num_batched_tokens = config.max_num_batched_tokens,
               .max_num_seqs = config.max_num_seqs,
               .long_prefill_threshold = config.long_prefill_threshold,
               .max_prompt_logprob_rows = config.max_prompt_logprob_rows,
               // One block in a hundred, so that running requests can grow for a while before the
               // first of them has to be preempted. (vLLM's default watermark.)
               .watermark_blocks = config.blocks / 100},
      copies_blocks_(copies_blocks),
      draft_source_(config.max_drafts > 0 ? drafts : nullptr),
      hasher_(std::move(hasher)),
      blocks_({.blocks = config.blocks,
               .block_tokens = config.block_tokens,
               .event_capacity = config.block_event_capacity,
               // A name of this run: any two starts differ by their time.
               .epoch = static_cast<uint64_t>(unix_seconds())}),
      host_(host_blocks),
      transfers_(blocks_, host_),
      costs_{.mode = config.preemption},
      builder_(config_) {
  const auto seats = static_cast<size_t>(config.max_num_seqs);
  builder_.reserve(batch_);
  plan_.entries.reserve(seats);
  running_.reserve(seats);
  waiting_.reserve(seats + static_cast<size_t>(config.max_queue));
  copies_.reserve(seats);
  preempted_.reserve(seats);
  for (Flight& flight : flights_) flight.rows.reserve(seats);
  refresh_gauges();
}

EngineState::~EngineState() = default;

void EngineState::insert_sorted(std::vector<Sequence*>& list, Sequence* sequence) {
  const auto at = std::upper_bound(
      list.begin(), list.end(), sequence, [](const Sequence* a, const Sequence* b) {
        return before(*a, *b);
      });
  list.insert(at, sequence);
}

void EngineState::add(std::unique_ptr<LiveRequest> request) {
  LiveRequest& live = *request;
  live.order = next_order_++;
  const auto [where, is_new] = requests_.emplace(live.request.id, std::move(request));
  TANDEM_CHECK(is_new, "request id is in use");
  (void)where;
  if (live.request.deadline) next_deadline_ = std::min(next_deadline_, *live.request.deadline);
  for (Sequence& sequence : live.sequences) insert_sorted(waiting_, &sequence);
  ++counters_.requests;
  ++counters_.queued;
}

bool EngineState::abort(const std::string& id, int32_t choice) {
  const auto found = requests_.find(id);
  bool any = false;
  if (found != requests_.end()) {
    for (Sequence& sequence : found->second->sequences) {
      if (sequence.state == SequenceState::kFinished) continue;
      if (choice >= 0 && sequence.choice != choice) continue;
      TokenEvent event = event_of(sequence);
      event.finish = FinishReason::kAbort;
      finish(sequence, FinishReason::kAbort);
      publish(sequence, std::move(event));
      any = true;
    }
  }
  if (!any) ++counters_.aborted_unknown;
  reap();
  return any;
}

void EngineState::fail_all(const Error& error) {
  while (!running_.empty()) fail_request(*running_.front()->request, error, /*distrust=*/false);
  while (!waiting_.empty()) fail_request(*waiting_.front()->request, error, /*distrust=*/false);
  reap();
}

void EngineState::fail_first(const Error& error) {
  if (!running_.empty())
    fail_request(*running_.front()->request, error, /*distrust=*/false);
  else if (!waiting_.empty())
    fail_request(*waiting_.front()->request, error, /*distrust=*/false);
  reap();
}

StateView EngineState::view() const {
  return {.running = {running_.data(), running_.size()},
          .waiting = {waiting_.data(), waiting_.size()},
          .blocks = &blocks_,
          .transfers = &transfers_,
          .host_blocks_free = host_.free_blocks(),
          .costs = costs_,
          .prefix_caching = config_.prefix_caching,
          .copies_blocks = copies_blocks_,
          .next_deadline = next_deadline_};
}

const Plan& EngineState::plan(TimePoint now) {
  schedule(view(), budgets_, now, plan_);
  return plan_;
}

void EngineState::find_next_deadline(TimePoint now) {
  next_deadline_ = TimePoint::max();
  for (const auto& [id, request] : requests_)
    if (request->unfinished > 0 && request->request.deadline && *request->request.deadline > now)
      next_deadline_ = std::min(next_deadline_, *request->request.deadline);
}

// Pointers first: the plan's indices hold only until a list changes.
void EngineState::gather(std::vector<StepRows>& rows) {
  rows.clear();
  expired_.clear();
  preempted_.clear();
  for (const int32_t i : plan_.expired_running)
    expired_.push_back(running_[static_cast<size_t>(i)]);
  for (const int32_t i : plan_.expired_waiting)
    expired_.push_back(waiting_[static_cast<size_t>(i)]);
  for (size_t i = static_cast<size_t>(plan_.keep_running); i < running_.size(); ++i)
    preempted_.push_back(running_[i]);
  swapped_out_.clear();
  swapped_in_.clear();
  for (const int32_t i : plan_.swapped_out)
    swapped_out_.push_back(running_[static_cast<size_t>(i)]);
  for (const PlanSwapIn& in : plan_.swap_ins)
    swapped_in_.emplace_back(waiting_[static_cast<size_t>(in.index)], in.blocks);
  for (const PlanEntry& entry : plan_.entries)
    rows.push_back(
        {.sequence = (entry.admitted ? waiting_ : running_)[static_cast<size_t>(entry.index)],
         .start = entry.start,
         .count = entry.count,
         .prompt_rows_begin = entry.prompt_rows_begin,
         .prompt_rows_end = entry.prompt_rows_end,
         .samples = entry.samples,
         .drafts = entry.drafts});
}

bool EngineState::apply(TimePoint now) {
  TANDEM_CHECK(flights_used_ < flights_.size(), "too many steps under way");
  Flight& flight = flights_[(first_flight_ + flights_used_) % flights_.size()];
  gather(flight.rows);
  for (Sequence* sequence : expired_) {
    if (sequence->state == SequenceState::kFinished) continue;
    ++counters_.timeouts;
    fail_request(*sequence->request,
                 {ErrorCode::kTimeout, "the request's deadline has passed", ""},
                 /*distrust=*/false);
  }
  if (now >= next_deadline_) find_next_deadline(now);
  orders_.clear();
  for (Sequence* sequence : swapped_out_)
    if (sequence->state == SequenceState::kRunning) swap_out(*sequence, now);
  for (Sequence* sequence : preempted_)
    if (sequence->state == SequenceState::kRunning) preempt(*sequence);
  copies_.clear();
  if (!flight.rows.empty()) {
    admit_all(flight.rows, now);
    builder_.build(flight.rows, batch_);
    remember_step(flight, now);
  }
  for (const auto& [sequence, blocks] : swapped_in_) swap_in(*sequence, blocks, now);
  reap();
  return !flight.rows.empty();
}

// Shared blocks are retained before any block is taken: the order in which the plan counted them
// does not matter then, and nothing that was found is reused for something else.
void EngineState::admit_all(const std::vector<StepRows>& rows, TimePoint now) {
  bool any = false;
  for (size_t i = 0; i < rows.size(); ++i) {
    const PlanEntry& entry = plan_.entries[i];
    Sequence& sequence = *rows[i].sequence;
    if (!entry.admitted) continue;
    any = true;
    start(sequence, now);
    blocks_.share(
        sequence.blocks,
        std::span(plan_.hits)
            .subspan(static_cast<size_t>(entry.hits_begin), static_cast<size_t>(entry.hits)));
    sequence.shared = entry.shared;
    sequence.offered = entry.hits;
    sequence.computed = entry.start;
    sequence.collected = entry.start;
    sequence.state = SequenceState::kRunning;
    note_admission(entry, sequence, now);
    insert_sorted(running_, &sequence);
  }
  if (any)
    std::erase_if(waiting_, [](const Sequence* s) { return s->state != SequenceState::kWaiting; });
  for (size_t i = 0; i < rows.size(); ++i) {
    const PlanEntry& entry = plan_.entries[i];
    Sequence& sequence = *rows[i].sequence;
    blocks_.allocate(sequence.blocks, entry.new_blocks);
    if (entry.copy_source != kv::kNoBlock)
      copies_.push_back({entry.copy_source, sequence.blocks[static_cast<size_t>(entry.hits)]});
  }
}

void EngineState::start(Sequence& sequence, TimePoint now) {
  if (sequence.started()) return;
  LiveRequest& live = *sequence.request;
  const auto first = live.first_tokens();
  const auto most = static_cast<size_t>(sequence.max_length);
  sequence.tokens.reserve(most);
  sequence.tokens.assign(first.begin(), first.end());
  sequence.hashes.reserve(most / static_cast<size_t>(config_.block_tokens) + 1);
  sequence.hashes.assign(live.hashes.begin(), live.hashes.end());
  sequence.blocks.reserve(static_cast<size_t>(blocks_.blocks_for(sequence.max_length)));
  if (draft_source_ != nullptr) sequence.drafts.reserve(static_cast<size_t>(config_.max_drafts));
  sequence.sampling.init(live.request.sampling,
                         live.request.eos_ids,
                         live.request.prompt,
                         live.request.resume_output,
                         config_.vocabulary);
  sequence.scheduled = now;
}

void EngineState::note_admission(const PlanEntry& entry, Sequence& sequence, TimePoint now) {
  LiveRequest& live = *sequence.request;
  if (entry.copy_source != kv::kNoBlock) ++counters_.block_copies;
  if (sequence.preemptions > 0) return;
  if (config_.prefix_caching) {
    counters_.prefix_queries += static_cast<uint64_t>(sequence.known());
    counters_.prefix_hits += static_cast<uint64_t>(entry.start);
  }
  if (sequence.choice > 0 && entry.shared > 0) ++counters_.forks;
  if (sequence.choice == 0) {
    live.cached_tokens = std::min(entry.start, sequence.prompt_length());
    if (live.scores_prompt()) {
      live.prompt_logprobs.reserve(live.request.prompt.size());
      live.prompt_logprobs.emplace_back();  // nothing comes before the first token
    }
  }
  if (live.admitted) return;
  live.admitted = true;
  --counters_.queued;
  counters_.prompt_tokens += live.request.prompt.size();
  counters_.prompt_tokens_cached += static_cast<uint64_t>(live.cached_tokens);
  const Duration queued = std::max(Duration{}, now - live.request.arrival);
  counters_.queue_time_sum += queued;
  ++counters_.queue_time_count;
  counters_.queue_time_ms.add(
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(queued).count()));
}

void EngineState::preempt(Sequence& sequence) {
  blocks_.release(sequence.blocks);
  if (sequence.swap == SwapState::kIn) {
    sequence.swap = SwapState::kHost;  // the copy is still good; the transfer is cancelled
    sequence.transfer = 0;
  } else {
    sequence.computed = 0;
  }
  requeue(sequence);
}

// Back to waiting, at its place in the order of service.
void EngineState::requeue(Sequence& sequence) {
  sequence.collected = 0;
  sequence.shared = 0;
  sequence.offered = 0;
  if (sequence.drafts_in_flight == 0) sequence.drafts.clear();
  ++sequence.hold;
  ++sequence.preemptions;
  sequence.state = SequenceState::kWaiting;
  std::erase(running_, &sequence);
  insert_sorted(waiting_, &sequence);
  ++counters_.preemptions;
}

void EngineState::remember_step(Flight& flight, TimePoint now) {
  flight.drafts = 0;
  for (StepRows& rows : flight.rows) {
    Sequence& sequence = *rows.sequence;
    rows.hold = sequence.hold;
    sequence.computed = rows.start + rows.count;
    sequence.prompt_scored = std::max(sequence.prompt_scored, rows.prompt_rows_end);
    ++sequence.in_flight;
    sequence.sample_row = rows.sample_row;
    if (!rows.samples) continue;
    ++sequence.placeholders;
    sequence.drafts.resize(static_cast<size_t>(rows.drafts));  // the others found no room
    sequence.drafts_in_flight = rows.drafts;
    flight.drafts += rows.drafts;
    if (rows.drafts > 0) ++counters_.drafts;
  }
  flight.logits_rows = batch_.rows();
  flight.tokens = batch_.tokens();
  flight.launched = now;
  ++flights_used_;
  ++counters_.steps;
  if (flight.rows.size() > 1) ++counters_.shared_steps;
  counters_.sequences_per_step.add(flight.rows.size());
  counters_.tokens_per_step.add(static_cast<uint64_t>(batch_.tokens()));
  counters_.draft_tokens += static_cast<uint64_t>(flight.drafts);
  counters_.computed_tokens += static_cast<uint64_t>(batch_.tokens());
}

void EngineState::refresh_gauges() {
  counters_.running = static_cast<int32_t>(running_.size());
  counters_.waiting = static_cast<int32_t>(waiting_.size());
  counters_.free_blocks = blocks_.pool().free_blocks();
  counters_.total_blocks = blocks_.pool().size();
  counters_.free_host_blocks = host_.free_blocks();
  counters_.total_host_blocks = host_.size();
  counters_.cached_blocks = blocks_.index().size();
}

}  // namespace tandem::engine
