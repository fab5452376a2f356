#pragma once
// What the engine is told once, at start. Validated by Engine::create, const after.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"
#include "kernels/operators.h"
#include "kv/prefix_hash.h"

namespace tandem::engine {

// Which of MLA's two forms computes a token's row: position and prompt length alone decide, so that
// neither chunks nor prefix hits nor preemption change a bit (DESIGN, same answer 5).
struct FormRule {
  int32_t expand_from = 0;  // prompts of at least so many tokens have expanded rows; 0 = never
  int32_t segment = 512;    // S; a multiple of the block size

  kernels::MlaForm form(int32_t position, int32_t prompt_length) const {
    return position < expanded_rows(prompt_length) ? kernels::MlaForm::kExpanded
                                                   : kernels::MlaForm::kAbsorbed;
  }
  // Positions below this one are expanded, the rest is absorbed.
  int32_t expanded_rows(int32_t prompt_length) const {
    if (expand_from <= 0 || prompt_length < expand_from) return 0;
    return prompt_length / segment * segment;
  }
};

// What becomes of a preempted sequence's rows when the host tier has room.
enum class PreemptionMode : int32_t {
  kMeasured,   // whatever costs less time by what was measured so far
  kSwap,       // always to the host
  kRecompute,  // never
};

struct EngineConfig {
  int32_t blocks = 0;  // of the KV pool
  int32_t block_tokens = kernels::kBlockTokens;
  int32_t kv_groups =
      1;  // they share one block table: block b of a group holds what b of another does
  int32_t vocabulary = 0;     // width of the logits
  int32_t max_model_len = 0;  // prompt and output together
  int32_t max_num_seqs = 256;
  int32_t max_num_batched_tokens = 2048;
  int32_t long_prefill_threshold = 0;     // most tokens of one request in a step; 0 = no such limit
  int32_t max_prompt_logprob_rows = 256;  // a step: each costs a row of logits
  int32_t max_queue = 1024;               // requests that wait for their first step
  int32_t max_choices = 128;
  int32_t max_top_logprobs = 20;
  int32_t max_drafts = 0;  // guesses a sequence and step; 0 = the draft source is not asked
  bool prefix_caching = true;
  std::optional<kv::PrefixKey> prefix_key;  // none: random, names are this process's own
  std::string fingerprint;                  // model and KV layout; part of every block's name
  int32_t block_event_capacity = 0;
  PreemptionMode preemption = PreemptionMode::kMeasured;
  FormRule form;

  // Tokens that a request may have in all: what the model and the pool allow.
  int32_t length_limit() const {
    return static_cast<int32_t>(
        std::min(int64_t{max_model_len}, int64_t{blocks} * int64_t{block_tokens}));
  }
  int32_t mask_words() const { return (vocabulary + 31) / 32; }

  Expected<void> validate() const;
};

struct Request;

// What the engine can never run is refused before it is queued. Any thread.
Expected<void> validate_request(const EngineConfig& config, const Request& request);

}  // namespace tandem::engine
