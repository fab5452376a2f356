#pragma once
// The scheduler: a pure function from what is to what the next step does.
//
// There are no phases. Every sequence has `computed` rows, chasing its length; a step hands out one
// budget of tokens to running sequences first, in order of service, then to waiting ones. Chunked
// prefill, decode and resumed requests are one case.
//
// Thread: any, as long as nobody changes the view meanwhile. Errors: none.

#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "engine/sequence.h"
#include "kv/block_manager.h"

namespace tandem::engine {

struct Budgets {
  int32_t max_num_batched_tokens = 2048;
  int32_t max_num_seqs = 256;
  int32_t long_prefill_threshold = 0;
  int32_t max_prompt_logprob_rows = 256;
  int32_t watermark_blocks = 0;  // stay free when a request is admitted beside others
};

// Both lists are in order of service.
struct StateView {
  std::span<const Sequence* const> running;
  std::span<const Sequence* const> waiting;
  const kv::BlockManager* blocks = nullptr;
  bool prefix_caching = true;
  bool copies_blocks = false;
  TimePoint next_deadline = TimePoint::max();  // no request's deadline is earlier
};

struct PlanEntry {
  int32_t index = 0;  // in running, or in waiting if `admitted`
  bool admitted = false;
  int32_t start = 0;  // first position
  int32_t count = 0;  // rows
  int32_t new_blocks = 0;
  int32_t prompt_rows_begin = 0;  // positions [begin, end) give prompt log-probabilities
  int32_t prompt_rows_end = 0;
  bool samples = false;  // its last row draws a token

  // Admitted: blocks to share, in Plan::hits, and rows that must not be written again.
  int32_t hits_begin = 0;
  int32_t hits = 0;
  int32_t shared = 0;
  kv::BlockId copy_source = kv::kNoBlock;  // to be copied into the first new block

  bool operator==(const PlanEntry&) const = default;
};

// Keeps its memory from step to step.
struct Plan {
  std::vector<PlanEntry> entries;        // running ones first
  int32_t keep_running = 0;              // running sequences from this index on are preempted
  std::vector<int32_t> expired_running;  // their deadline has passed
  std::vector<int32_t> expired_waiting;
  std::vector<kv::BlockId> hits;
  int32_t tokens = 0;
  kv::PoolPreview pool;  // as it will be

  bool same_decisions(const Plan& other) const;
};

void schedule(const StateView& state, const Budgets& budgets, TimePoint now, Plan& plan);

}  // namespace tandem::engine
