#include "engine/engine.h"

#include <algorithm>

#include "base/check.h"
#include "base/log.h"

namespace tandem::engine {
namespace {

// Rounds without a launch, a result or an end while there are requests: more than one is a bug of
// the scheduler, but a round that only preempts is none.
constexpr int32_t kMaxEmptyRounds = 4;

}  // namespace

Expected<std::unique_ptr<Engine>> Engine::create(EngineConfig config,
                                                 std::unique_ptr<Executor> executor,
                                                 const Clock& clock,
                                                 std::unique_ptr<DraftSource> drafts) {
  TANDEM_TRY(config.validate());
  const int32_t depth = executor->depth();
  if (depth < 1 || depth > 2)
    return fail(ErrorCode::kInvalidArgument, "the executor's depth is {}, not 1 or 2", depth);
  kv::PrefixKey key{};
  if (config.prefix_key) {
    key = *config.prefix_key;
  } else {
    TANDEM_ASSIGN(key, kv::random_prefix_key());
  }
  TANDEM_ASSIGN(const kv::PrefixHasher hasher, kv::PrefixHasher::create(key));
  return std::unique_ptr<Engine>(
      new Engine(std::move(config), std::move(executor), clock, hasher, std::move(drafts)));
}

Engine::Engine(EngineConfig config,
               std::unique_ptr<Executor> executor,
               const Clock& clock,
               const kv::PrefixHasher& hasher,
               std::unique_ptr<DraftSource> drafts)
    : config_(std::move(config)),
      executor_(std::move(executor)),
      drafts_(std::move(drafts)),
      clock_(clock),
      hasher_(hasher.clone().value()),
      state_(config_,
             hasher.clone().value(),
             executor_->copies_blocks(),
             executor_->host_blocks(),
             drafts_.get()),
      depth_(executor_->depth()) {
  published_ = state_.counters();
  published_.last_step = clock_.now();
  thread_ = std::thread([this] { run(); });
}

Engine::~Engine() { drain(clock_.now()); }

Expected<void> Engine::submit(Request request) {
  {
    // Before the dear part: a full queue answers at once.
    const std::lock_guard lock(mutex_);
    if (draining_ || dead_) return fail(ErrorCode::kUnavailable, "the engine is shutting down");
    if (queued_ + static_cast<int32_t>(arrivals_.size()) >= config_.max_queue)
      return fail(ErrorCode::kUnavailable, "{} requests are waiting already", config_.max_queue);
  }
  TANDEM_ASSIGN(kv::PrefixHasher hasher, hasher_.clone());
  TANDEM_ASSIGN(auto live, make_live_request(config_, std::move(request), hasher));

  const std::lock_guard lock(mutex_);
  if (draining_ || dead_) return fail(ErrorCode::kUnavailable, "the engine is shutting down");
  if (queued_ + static_cast<int32_t>(arrivals_.size()) >= config_.max_queue)
    return fail(ErrorCode::kUnavailable, "{} requests are waiting already", config_.max_queue);
  if (!live_.emplace(live->request.id, live->request.choices + 1).second)
    return fail(ErrorCode::kInvalidArgument, "a request with this id is running");
  arrivals_.push_back(std::move(live));
  wake_.notify_one();
  return {};
}

void Engine::abort(std::string_view id, int32_t choice) {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(std::string(id));
  if (found == live_.end() || found->second <= 0) return;
  // So that no client can make this list longer than its choices.
  --found->second;
  aborts_.push_back({found->first, choice});
  wake_.notify_one();
}

EngineCounters Engine::counters() const {
  const std::lock_guard lock(mutex_);
  EngineCounters counters = published_;
  counters.queued += static_cast<int32_t>(arrivals_.size());
  for (const auto& live : arrivals_) counters.waiting += live->request.choices;
  counters.draining = draining_;
  counters.dead = dead_;
  return counters;
}

std::vector<kv::BlockEvent> Engine::take_block_events() {
  const std::lock_guard lock(mutex_);
  return std::exchange(block_events_, {});
}

void Engine::drain(TimePoint deadline) {
  {
    const std::lock_guard lock(mutex_);
    draining_ = true;
    drain_deadline_ = std::min(drain_deadline_, deadline);
    wake_.notify_one();
  }
  const std::lock_guard lock(join_mutex_);
  if (thread_.joinable()) thread_.join();
}

void Engine::run() {
  try {
    while (receive()) {
      step();
      publish();
    }
  } catch (const std::exception& e) {
    die(e.what());
  } catch (...) {
    die("unknown exception");
  }
  publish();
}

// The thread cannot go on (out of memory, in all likelihood): everybody hears of it.
void Engine::die(const char* what) {
  log_error("the engine thread stops: {}", log_safe(what));
  const Error error{ErrorCode::kInternal, "the engine has stopped after an internal error", ""};
  {
    // First, whatever goes wrong below: nothing more is accepted, and /health says so.
    const std::lock_guard lock(mutex_);
    dead_ = true;
  }
  try {
    state_.fail_all(error);
    const std::lock_guard lock(mutex_);
    for (const auto& live : arrivals_) {
      TokenEvent event;
      event.finish = FinishReason::kError;
      event.error = error;
      live->request.sink->on_event(std::move(event));
    }
    arrivals_.clear();
  } catch (...) {
    log_error("the engine thread could not tell all requests");
  }
}

// Takes arrivals and aborts; sleeps when there is nothing to do. False: drained, the thread ends.
bool Engine::receive() {
  {
    std::unique_lock lock(mutex_);
    if (state_.idle())
      wake_.wait(lock, [this] { return !arrivals_.empty() || !aborts_.empty() || draining_; });
    new_arrivals_.swap(arrivals_);
    new_aborts_.swap(aborts_);
    queued_ += static_cast<int32_t>(new_arrivals_.size());
    drain_seen_ = draining_;
    drain_deadline_seen_ = drain_deadline_;
    published_.busy = !state_.idle() || !new_arrivals_.empty();
    published_.last_step = clock_.now();
  }
  for (std::unique_ptr<LiveRequest>& request : new_arrivals_) state_.add(std::move(request));
  new_arrivals_.clear();
  for (const Abort& abort : new_aborts_) state_.abort(abort.id, abort.choice);
  new_aborts_.clear();
  if (drain_seen_ && clock_.now() >= drain_deadline_seen_)
    state_.fail_all({ErrorCode::kUnavailable, "the server is shutting down", "try again later"});
  return !(drain_seen_ && state_.idle());
}

void Engine::step() {
  const TimePoint now = clock_.now();
  const size_t ended = state_.ended().size();
  bool progress = false;
  while (state_.in_flight() < depth_ && launch(now)) progress = true;
  if (state_.transferring()) {
    take_transfers(/*wait=*/!progress && state_.in_flight() == 0);
    progress = true;
  }
  if (state_.in_flight() > 0) {
    publish();  // so that the gauges show this step while it runs
    collect();
    progress = true;
  }
  if (progress || state_.idle() || state_.ended().size() > ended) {
    empty_rounds_ = 0;
  } else if (++empty_rounds_ >= kMaxEmptyRounds) {
    log_error("no step can be planned; the first request is dropped");
    state_.fail_first({ErrorCode::kInternal, "the request cannot be scheduled", ""});
    empty_rounds_ = 0;
  }
}

// True when a step was launched.
bool Engine::launch(TimePoint now) {
  state_.plan(now);
  const bool has_rows = state_.apply(now);
  for (const TransferOrder& order : state_.transfer_orders()) {
    if (const auto started = executor_->start_transfer(order); !started) {
      log_error("a transfer could not be started: {}", log_safe(started.error().message));
      state_.transfer_ended(order.id, /*ok=*/false, now);
    }
  }
  if (!has_rows) return false;
  Expected<void> done;
  if (!state_.copies().empty()) done = executor_->copy_blocks(state_.copies());
  if (done) done = executor_->launch(state_.batch());
  if (done) return true;
  log_error("a step could not be launched: {}", log_safe(done.error().message));
  state_.launch_failed(done.error());
  return false;
}

void Engine::take_transfers(bool wait) {
  reports_.clear();
  executor_->finished_transfers(wait, reports_);
  const TimePoint now = clock_.now();
  for (const TransferReport& report : reports_) state_.transfer_ended(report.id, report.ok, now);
}

void Engine::collect() {
  const Expected<void> done = executor_->collect(result_);
  if (done) {
    state_.collected(result_, clock_.now());
  } else {
    log_error("a step failed: {}", log_safe(done.error().message));
    state_.collect_failed(done.error());
  }
}

void Engine::publish() {
  state_.refresh_gauges();
  const std::lock_guard lock(mutex_);
  for (const std::string& id : state_.ended()) live_.erase(id);
  state_.ended().clear();
  queued_ = state_.counters().queued;
  published_ = state_.counters();
  published_.busy = !state_.idle();
  published_.last_step = clock_.now();
  if (config_.block_event_capacity > 0) {
    const auto most = static_cast<size_t>(config_.block_event_capacity);
    state_.blocks().drain_events(block_events_);
    if (block_events_.size() > most)
      block_events_.erase(block_events_.begin(), block_events_.end() - static_cast<int64_t>(most));
  }
}

}  // namespace tandem::engine
