#pragma once
// The scheduler: a pure function from what is to what the next step does.
//
// There are no phases. Every sequence has `computed` rows, chasing its length; a step hands out one
// budget of tokens to running sequences first, in order of service, then to waiting ones. Chunked
// prefill, decode, drafts and resumed requests are one case.
//
// Drafts lengthen the entry that draws a token. They take what is left when every running sequence
// has its own rows, of the budget and of the free blocks: nobody waits or is preempted for a guess.
//
// Thread: any, as long as nobody changes the view meanwhile. Errors: none.

#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "engine/config.h"
#include "engine/sequence.h"
#include "kv/block_manager.h"
#include "kv/transfers.h"

namespace tandem::engine {

struct Budgets {
  int32_t max_num_batched_tokens = 2048;
  int32_t max_num_seqs = 256;
  int32_t long_prefill_threshold = 0;
  int32_t max_prompt_logprob_rows = 256;
  int32_t watermark_blocks = 0;  // stay free when a request is admitted beside others
};

// What it costs to bring a preempted sequence back, as measured; 0 = not known yet. Without a
// measurement swapping is tried, so that there is one.
struct SwapCosts {
  PreemptionMode mode = PreemptionMode::kMeasured;
  double recompute_ns_per_token = 0;
  double transfer_ns_per_block = 0;

  bool swap_is_cheaper(int32_t tokens, int32_t blocks) const {
    if (mode != PreemptionMode::kMeasured) return mode == PreemptionMode::kSwap;
    if (recompute_ns_per_token <= 0 || transfer_ns_per_block <= 0) return true;
    return 2.0 * blocks * transfer_ns_per_block < tokens * recompute_ns_per_token;
  }
};

// Both lists are in order of service.
struct StateView {
  std::span<const Sequence* const> running;
  std::span<const Sequence* const> waiting;
  const kv::BlockManager* blocks = nullptr;
  const kv::Transfers* transfers = nullptr;
  int32_t host_blocks_free = 0;
  SwapCosts costs;
  bool prefix_caching = true;
  bool copies_blocks = false;
  TimePoint next_deadline = TimePoint::max();  // no request's deadline is earlier
};

struct PlanEntry {
  int32_t index = 0;  // in running, or in waiting if `admitted`
  bool admitted = false;
  int32_t start = 0;  // first position
  int32_t count = 0;  // rows, those of drafts included
  int32_t new_blocks = 0;
  int32_t prompt_rows_begin = 0;  // positions [begin, end) give prompt log-probabilities
  int32_t prompt_rows_end = 0;
  bool samples = false;  // its last row draws a token, and so does the one before each draft
  int32_t drafts = 0;    // of the rows, the last so many

  // Admitted: blocks to share, in Plan::hits, and rows that must not be written again.
  int32_t hits_begin = 0;
  int32_t hits = 0;
  int32_t shared = 0;
  kv::BlockId copy_source = kv::kNoBlock;  // to be copied into the first new block

  bool operator==(const PlanEntry&) const = default;
};

// A waiting sequence whose blocks come back from the host.
struct PlanSwapIn {
  int32_t index = 0;  // in waiting
  int32_t blocks = 0;
  bool operator==(const PlanSwapIn&) const = default;
};

// Keeps its memory from step to step.
struct Plan {
  std::vector<PlanEntry> entries;    // running ones first
  int32_t keep_running = 0;          // running sequences from this index on are preempted
  std::vector<int32_t> swapped_out;  // of those, the ones that go to the host
  std::vector<PlanSwapIn> swap_ins;
  std::vector<int32_t> expired_running;  // their deadline has passed
  std::vector<int32_t> expired_waiting;
  std::vector<kv::BlockId> hits;
  int32_t tokens = 0;
  kv::PoolPreview pool;  // as it will be

  bool same_decisions(const Plan& other) const;
};

void schedule(const StateView& state, const Budgets& budgets, TimePoint now, Plan& plan);

}  // namespace tandem::engine
