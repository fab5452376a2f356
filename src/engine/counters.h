#pragma once
// The engine's figures, plain numbers; serve gives them their public names.

#include <array>
#include <cstdint>

#include "base/clock.h"

namespace tandem::engine {

// Bucket b counts values in (2^(b-1), 2^b]; bucket 0 counts 0 and 1; the last one all larger.
class PowerHistogram {
 public:
  static constexpr size_t kBuckets = 18;

  void add(uint64_t value) {
    size_t bucket = 0;
    while (bucket + 1 < kBuckets && (uint64_t{1} << bucket) < value) ++bucket;
    ++counts[bucket];
    sum += value;
    ++count;
    if (value > largest) largest = value;
  }

  std::array<uint64_t, kBuckets> counts{};
  uint64_t sum = 0;
  uint64_t count = 0;
  uint64_t largest = 0;
};

// A snapshot; Engine::counters() may be called by any thread.
struct EngineCounters {
  // Since start.
  uint64_t steps = 0;
  uint64_t shared_steps = 0;  // steps that served more than one sequence
  PowerHistogram sequences_per_step;
  PowerHistogram tokens_per_step;
  uint64_t prompt_tokens = 0;         // of requests at their first admission, cached ones too
  uint64_t prompt_tokens_cached = 0;  // of these, the ones that the prefix index had
  uint64_t generation_tokens = 0;
  uint64_t computed_tokens = 0;  // rows launched
  uint64_t drafts = 0;           // entries of steps that had rows of guesses
  uint64_t draft_tokens = 0;     // guesses launched
  uint64_t accepted_tokens = 0;  // of those, the ones that the sampler drew as well
  uint64_t preemptions = 0;
  uint64_t swaps_out = 0;  // of the preemptions, those to the host
  uint64_t swaps_in = 0;
  uint64_t swaps_failed = 0;
  uint64_t prefix_queries = 0;  // tokens asked for at first admission
  uint64_t prefix_hits = 0;     // of those, tokens found
  uint64_t forks = 0;           // choices that took their prompt from choice 0
  uint64_t block_copies = 0;
  uint64_t requests = 0;       // accepted
  uint64_t finished_stop = 0;  // choices, by reason
  uint64_t finished_length = 0;
  uint64_t finished_repetition = 0;
  uint64_t finished_abort = 0;
  uint64_t finished_error = 0;
  uint64_t timeouts = 0;         // requests past their deadline
  uint64_t corrupted = 0;        // requests ended by a NaN or an empty choice
  uint64_t device_failures = 0;  // steps
  Duration queue_time_sum{};     // arrival to first step, over prompt admissions
  uint64_t queue_time_count = 0;
  PowerHistogram queue_time_ms;
  Duration step_time_sum{};      // launch to results
  uint64_t aborted_unknown = 0;  // aborts of requests that had ended

  // Now.
  int32_t running = 0;  // sequences
  int32_t waiting = 0;  // sequences, preempted ones and those that have just come too
  int32_t queued = 0;   // requests that have not been in a step
  int32_t free_blocks = 0;
  int32_t total_blocks = 0;
  int32_t free_host_blocks = 0;
  int32_t total_host_blocks = 0;
  int32_t cached_blocks = 0;  // in the prefix index
  int32_t consecutive_device_failures = 0;
  bool busy = false;  // the loop has work: then `last_step` has to move
  bool draining = false;
  bool dead = false;      // the engine thread has stopped after an error: nothing will run any more
  TimePoint last_step{};  // when the loop last went round
};

}  // namespace tandem::engine
