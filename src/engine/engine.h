#pragma once
// The engine: one thread that owns all requests and drives the executor, and a bounded way in.
//
// Owner: app. submit(), abort(), counters(), drain() and take_block_events() may be called by any
// thread. Events go to the requests' sinks on the engine thread.
//
// Errors: submit() returns them; later ones end their request with an event. An executor that fails
// ends the requests of that step only; counters().consecutive_device_failures shows it.

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "engine/config.h"
#include "engine/counters.h"
#include "engine/engine_state.h"
#include "engine/executor.h"
#include "engine/request.h"

namespace tandem::engine {

class Engine {
 public:
  // Starts the thread. `clock` outlives the engine. `drafts`: none, or asked if config.max_drafts
  // > 0.
  static Expected<std::unique_ptr<Engine>> create(EngineConfig config,
                                                  std::unique_ptr<Executor> executor,
                                                  const Clock& clock,
                                                  std::unique_ptr<DraftSource> drafts = nullptr);
  ~Engine();  // drain(), with no time to wait

  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // kInvalidArgument: it can never run. kUnavailable: the queue is full or the engine is draining.
  // After an error no event follows; after success every choice gets exactly one event with a
  // finish reason.
  Expected<void> submit(Request request);

  // Ends a request, or one of its choices, with FinishReason::kAbort within one step. Nothing
  // happens when it has ended already.
  void abort(std::string_view id, int32_t choice = -1);

  EngineCounters counters() const;

  // Refuses what is new, lets the rest finish until `deadline`, then ends it with kUnavailable, and
  // stops the thread. Waits for it; a step under way is waited for in any case.
  void drain(TimePoint deadline);

  // Block events since the last call; kept only with EngineConfig::block_event_capacity.
  std::vector<kv::BlockEvent> take_block_events();

  const EngineConfig& config() const { return config_; }

 private:
  struct Abort {
    std::string id;
    int32_t choice = -1;
  };

  Engine(EngineConfig config,
         std::unique_ptr<Executor> executor,
         const Clock& clock,
         const kv::PrefixHasher& hasher,
         std::unique_ptr<DraftSource> drafts);

  void run();
  bool receive();
  void step();
  bool launch(TimePoint now);
  void take_transfers(bool wait);
  void collect();
  void publish();
  void die(const char* what);

  const EngineConfig config_;
  const std::unique_ptr<Executor> executor_;
  const std::unique_ptr<DraftSource> drafts_;
  const Clock& clock_;
  const kv::PrefixHasher hasher_;  // cloned by submitting threads

  // Engine thread only.
  EngineState state_;
  const int32_t depth_;
  model::StepResult result_;
  std::vector<TransferReport> reports_;
  std::vector<std::unique_ptr<LiveRequest>> new_arrivals_;
  std::vector<Abort> new_aborts_;
  bool drain_seen_ = false;
  TimePoint drain_deadline_seen_{};
  int32_t empty_rounds_ = 0;

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable wake_;
  std::vector<std::unique_ptr<LiveRequest>> arrivals_;
  std::vector<Abort> aborts_;
  std::unordered_map<std::string, int32_t> live_;  // id -> aborts that are still taken
  int32_t queued_ = 0;                             // requests without a step, arrivals_ excluded
  bool draining_ = false;
  bool dead_ = false;
  TimePoint drain_deadline_ = TimePoint::max();
  EngineCounters published_;
  std::vector<kv::BlockEvent> block_events_;

  std::mutex join_mutex_;
  std::thread thread_;
};

}  // namespace tandem::engine
