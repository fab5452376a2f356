#pragma once
// Everything that the engine knows of its requests, and what a step does to it. No threads, no
// clock, no executor: Engine drives it, tests and the simulation too.
//
// A step: plan() -> apply() -> batch() and copies() go to the executor -> launch_failed()
// if that did not work -> results in order of launch: collected() or collect_failed().
//
// Owner: Engine. One thread. Errors go to the requests' sinks.

#include <array>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/batch_builder.h"
#include "engine/config.h"
#include "engine/counters.h"
#include "engine/draft_source.h"
#include "engine/executor.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "kv/block_manager.h"
#include "kv/prefix_hash.h"

namespace tandem::engine {

// Validates and names the blocks of a request's tokens: the dear part of an arrival, done by the
// thread that submits. `hasher` is that thread's own.
Expected<std::unique_ptr<LiveRequest>> make_live_request(const EngineConfig& config,
                                                         Request request,
                                                         kv::PrefixHasher& hasher);

// The mean of the measurements so far, `mean` (0 = none), with one more.
double smoothed(double mean, double sample);

class EngineState {
 public:
  // `copies_blocks`, `host_blocks`: what the executor can. `config` and `drafts`, which may be
  // null, outlive this object.
  EngineState(const EngineConfig& config,
              kv::PrefixHasher hasher,
              bool copies_blocks,
              int32_t host_blocks = 0,
              DraftSource* drafts = nullptr);
  ~EngineState();

  void add(std::unique_ptr<LiveRequest> request);
  // choice < 0: all of them. False when there is no such request any more.
  bool abort(const std::string& id, int32_t choice);
  // Ends every request with this error.
  void fail_all(const Error& error);
  // Ends the first request; for a state in which nothing can be planned, which is a bug.
  void fail_first(const Error& error);

  // What the next step would do; changes nothing.
  const Plan& plan(TimePoint now);
  // Does it. False when the step has no rows: nothing is to be launched. Transfers are to be
  // started in any case, before the launch.
  bool apply(TimePoint now);

  const model::Batch& batch() const { return batch_; }
  const std::vector<BlockCopy>& copies() const { return copies_; }
  const std::vector<TransferOrder>& transfer_orders() const { return orders_; }

  void transfer_ended(int64_t id, bool ok, TimePoint now);
  bool transferring() const { return !moves_.empty(); }

  void launch_failed(const Error& error);
  void collected(const model::StepResult& result, TimePoint now);
  void collect_failed(const Error& error);

  bool idle() const { return requests_.empty(); }
  int32_t in_flight() const { return static_cast<int32_t>(flights_used_); }
  const EngineCounters& counters() const { return counters_; }
  EngineCounters& counters() { return counters_; }
  void refresh_gauges();

  StateView view() const;
  const Budgets& budgets() const { return budgets_; }
  kv::BlockManager& blocks() { return blocks_; }

  // Ids of requests that ended since the last call; the caller clears the list.
  std::vector<std::string>& ended() { return ended_; }

  // For tests: every count, table and list agrees. Linear.
  bool consistent() const;

 private:
  struct Flight {
    std::vector<StepRows> rows;
    int32_t logits_rows = 0;
    int32_t tokens = 0;
    int32_t drafts = 0;  // of the tokens
    TimePoint launched{};
  };

  void insert_sorted(std::vector<Sequence*>& list, Sequence* sequence);
  void start(Sequence& sequence, TimePoint now);
  void note_admission(const PlanEntry& entry, Sequence& sequence, TimePoint now);
  void preempt(Sequence& sequence);
  struct Move {
    int64_t transfer = 0;
    Sequence* sequence = nullptr;
    TimePoint started{};
  };

  void start_move(Sequence& sequence, bool to_host, TimePoint now);
  void swap_out(Sequence& sequence, TimePoint now);
  void swap_in(Sequence& sequence, int32_t blocks, TimePoint now);
  void release_host(Sequence& sequence);
  void requeue(Sequence& sequence);
  void measure_step(const Flight& flight, TimePoint now);
  bool transfers_consistent() const;
  bool drafts_consistent(const Sequence& sequence) const;
  int32_t rows_with_drafts(const Sequence& sequence) const;
  void gather(std::vector<StepRows>& rows);
  void admit_all(const std::vector<StepRows>& rows, TimePoint now);
  void remember_step(Flight& flight, TimePoint now);
  void fail_flight(Flight& flight, const Error& error);
  void find_next_deadline(TimePoint now);

  bool row_valid(int32_t row, const model::StepResult& result) const;
  bool prompt_rows_valid(const StepRows& rows, const model::StepResult& result) const;
  void take_rows(const StepRows& rows, const model::StepResult& result);
  void take_draws(const StepRows& rows, const model::StepResult& result);
  void note_collected(Sequence& sequence, int32_t rows);
  void fail_invalid_rows(Sequence& sequence);
  void ask_for_drafts(Sequence& sequence);
  void take_prompt_rows(const StepRows& rows, const model::StepResult& result);
  void take_token(Sequence& sequence, int32_t row, const model::StepResult& result);
  void store_blocks(Sequence& sequence);
  TokenEvent event_of(const Sequence& sequence) const;
  void publish(Sequence& sequence, TokenEvent event);
  void fail_request(LiveRequest& request, const Error& error, bool distrust);
  void finish(Sequence& sequence, FinishReason reason);
  void reap();
  TokenLogprobs logprobs_of(const model::StepResult& result, int32_t row, int32_t top) const;

  const EngineConfig& config_;
  Budgets budgets_;
  const bool copies_blocks_;
  DraftSource* const draft_source_;
  kv::PrefixHasher hasher_;
  kv::BlockManager blocks_;
  kv::BlockPool host_;
  kv::Transfers transfers_;
  std::vector<Move> moves_;
  SwapCosts costs_;
  BatchBuilder builder_;

  std::unordered_map<std::string, std::unique_ptr<LiveRequest>> requests_;
  std::vector<Sequence*> running_;  // in order of service
  std::vector<Sequence*> waiting_;
  uint64_t next_order_ = 0;
  TimePoint next_deadline_ = TimePoint::max();

  Plan plan_;
  model::Batch batch_;
  std::vector<BlockCopy> copies_;
  std::vector<Sequence*> expired_;  // scratch of apply()
  std::vector<Sequence*> preempted_;
  std::vector<Sequence*> swapped_out_;
  std::vector<std::pair<Sequence*, int32_t>> swapped_in_;
  std::vector<TransferOrder> orders_;
  // Ring of two: flights_[(first_flight_ + i) % 2], so that their vectors keep their memory.
  std::array<Flight, 2> flights_;
  size_t first_flight_ = 0;
  size_t flights_used_ = 0;
  std::vector<LiveRequest*> dead_;  // ended; freed when no step under way names them
  std::vector<std::string> ended_;
  EngineCounters counters_;
};

}  // namespace tandem::engine
