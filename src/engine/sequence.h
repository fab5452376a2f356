#pragma once
// One choice of a request as the engine's state holds it, and the request with all its choices.
//
// Owner: EngineState. Engine thread; LiveRequest is built by the submitting thread and handed over.

#include <cstdint>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

#include "engine/request.h"
#include "engine/sampling_state.h"
#include "engine/stop_rules.h"
#include "kv/block_pool.h"
#include "kv/prefix_hash.h"

namespace tandem::engine {

struct LiveRequest;

// Where the rows of a preempted sequence are.
enum class SwapState : int32_t {
  kNone,  // nowhere, or on the device
  kOut,   // on their way to the host
  kHost,
  kIn,  // on their way back: the sequence is running but has no rows in a step yet
};

enum class SequenceState : int32_t { kWaiting, kRunning, kFinished };

// Positions run from 0 over prompt and output. Position p's row is computed from token p; the
// logits of the last known token's row give the next token.
struct Sequence {
  LiveRequest* request = nullptr;
  int32_t choice = 0;
  SequenceState state = SequenceState::kWaiting;
  int32_t max_length = 0;  // ends when it has so many tokens

  // Prompt and output, once it has been in a step; before, the request's lists stand for them.
  std::vector<int32_t> tokens;
  std::vector<kv::PrefixHash> hashes;  // names of the full blocks of `tokens`, as far as computed
  SamplingState sampling;
  RepetitionRuns repetition;

  kv::BlockTable blocks;
  int32_t computed = 0;   // rows launched or found in the cache, rows of drafts too
  int32_t collected = 0;  // of those, rows whose step has come back
  int32_t shared = 0;     // rows below are in blocks of others or copied: never written again
  int32_t offered = 0;    // blocks offered to the prefix index
  int32_t hold = 0;  // +1 with each preemption: steps launched before know nothing of the blocks

  SwapState swap = SwapState::kNone;
  kv::BlockTable host;    // the copy, while it is wanted
  int64_t transfer = 0;   // the one that counts; others are cancelled
  int32_t transfers = 0;  // under way that name this sequence

  int32_t placeholders = 0;  // tokens that the device samples and the host does not know: 0 or 1
  int32_t sample_row = -1;   // the logits row of the last launch that samples the placeholder
  int32_t in_flight = 0;     // steps that name this sequence

  // Guesses at the tokens after the known ones. Three cases: rows of the next launch; while
  // `drafts_in_flight` > 0, rows of the last one; beside a placeholder, only a sign that the source
  // has something to offer here.
  std::vector<int32_t> drafts;
  int32_t drafts_in_flight = 0;

  int32_t prompt_scored = 0;  // rows launched for prompt log-probabilities

  TimePoint scheduled{};
  int32_t preemptions = 0;

  int32_t prompt_length() const;
  int32_t known() const;  // tokens
  int32_t length() const { return known() + placeholders; }
  int32_t output_count() const { return known() - prompt_length(); }
  std::span<const int32_t> known_tokens() const;
  std::span<const int32_t> output() const { return known_tokens().subspan(prompt_length()); }
  std::span<const kv::PrefixHash> known_hashes() const;
  bool started() const { return !tokens.empty(); }

  // True when the next row cannot be launched before the token that is being sampled is known: it
  // depends on that token, or how many rows stay is not known yet, or guesses can be made once it
  // is. Thus a sequence with drafts in flight never has a later step beside them.
  bool waits_for_token() const {
    return placeholders > 0 && (sampling.needs_known_tokens() || !drafts.empty());
  }

  // Rows of prompt log-probabilities that are still to be launched: positions [prompt_scored,
  // this).
  int32_t prompt_rows_end() const;
};

struct LiveRequest {
  Request request;
  uint64_t order = 0;  // of arrival
  kv::PrefixHash root;
  std::vector<kv::PrefixHash> hashes;  // of the full blocks of prompt and resumed output
  std::vector<int32_t> resumed;        // prompt and resumed output; empty when nothing is resumed
  std::vector<Sequence> sequences;     // by choice; never resized after construction
  int32_t unfinished = 0;
  bool admitted = false;      // some choice has been in a step
  bool sink_failed = false;   // the sink threw: nothing more is published
  bool prompt_ready = false;  // choice 0 has the whole prompt: the others may share it
  int32_t cached_tokens = 0;
  std::vector<TokenLogprobs> prompt_logprobs;

  bool scores_prompt() const { return request.sampling.prompt_top_logprobs >= 0; }
  std::span<const int32_t> first_tokens() const {
    return resumed.empty() ? std::span<const int32_t>(request.prompt) : resumed;
  }
};

inline int32_t Sequence::prompt_length() const {
  return static_cast<int32_t>(request->request.prompt.size());
}
inline std::span<const int32_t> Sequence::known_tokens() const {
  return started() ? std::span<const int32_t>(tokens) : request->first_tokens();
}
inline int32_t Sequence::known() const { return static_cast<int32_t>(known_tokens().size()); }
inline std::span<const kv::PrefixHash> Sequence::known_hashes() const {
  return started() ? std::span<const kv::PrefixHash>(hashes) : request->hashes;
}
inline int32_t Sequence::prompt_rows_end() const {
  return choice == 0 && request->scores_prompt() ? prompt_length() - 1 : 0;
}

// The order of service: smaller first. Preemption takes the largest.
inline bool before(const Sequence& a, const Sequence& b) {
  return std::tuple(a.request->request.priority, a.request->order, a.choice) <
         std::tuple(b.request->request.priority, b.request->order, b.choice);
}

}  // namespace tandem::engine
