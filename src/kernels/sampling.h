#pragma once
// C++20 (shared with .cu)
// The sampling operator: logits -> ids and log-probabilities. Order of steps: vLLM's (docs/api.md):
// raw log-probabilities -> mask -> logit bias -> repetition, frequency, presence penalties ->
// temperature 0: argmax, else / temperature -> min_p -> top_k -> top_p -> draw. top_p: in
// descending order (ties: the lowest id first) a token stays while the mass of those before it is <
// top_p.

#include <cstddef>
#include <cstdint>

#include "tensor/tensor_view.h"

namespace tandem::kernels {

// Per logits row. Variable-length data lies in SampleArgs' arrays at [begin, begin + count).
struct SampleRow {
  float temperature = 1.0f;  // 0 = greedy: the largest, ties to the lowest id
  float top_p = 1.0f;
  float min_p = 0.0f;
  int32_t top_k = 0;  // 0 = off; keeps all that tie with the k-th
  float repetition_penalty = 1.0f;
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  int32_t bias_begin = 0;
  int32_t bias_count = 0;
  int32_t history_begin = 0;
  int32_t history_count = 0;
  int32_t mask_row = -1;  // row of SampleArgs::masks; -1 = everything allowed
  // Noise is a pure function of (seed, choice, position): base/random.h philox4x32 with key = seed
  // and counter = {token id / 4, position, choice, 0}, word token id % 4; token = argmax of log p -
  // log(-log u) (Gumbel).
  uint64_t seed = 0;
  uint32_t choice = 0;
  uint32_t position = 0;
  int32_t forced_id = -1;  // >= 0: do not draw, report this token (prompt log-probabilities)
  int32_t top_logprobs =
      -1;  // -1 = no log-probabilities at all; n = the drawn token's and the n best
};

// One token that occurred before, for penalties.
struct HistoryEntry {
  int32_t id = 0;
  int32_t in_prompt = 0;     // 0 or 1; only the repetition penalty looks at it
  int32_t output_count = 0;  // occurrences in the output
};

struct SampleResult {
  int32_t id = 0;
  int32_t rank = 0;   // 1 + the number of larger raw logits; only with log-probabilities
  float logprob = 0;  // raw, of id; only with log-probabilities
  int32_t invalid =
      0;  // 1: a logit was NaN or +inf, or none was allowed: this row's request ends with an error
          // and id is 0, so that the step that is already in flight can look it up
};

struct SampleArgs {
  int32_t rows = 0;
  tensor::RowsView logits;              // [rows, vocabulary] kF32; overwritten
  const SampleRow* row = nullptr;       // [rows]
  const SampleRow* host_row = nullptr;  // the same, readable by the submitting thread
  const int32_t* bias_ids = nullptr;
  const float* bias_values = nullptr;
  const HistoryEntry* history = nullptr;
  const uint32_t* masks =
      nullptr;             // [mask rows, mask_words]; bit id % 32 of word id / 32: 1 = allowed
  int32_t mask_words = 0;  // >= ceil(vocabulary / 32)
  int32_t max_top_logprobs = 0;    // columns of the two arrays below
  SampleResult* result = nullptr;  // out [rows]
  int32_t* ids = nullptr;          // out [rows], result[r].id again: the next step's previous_ids
  int32_t* top_ids = nullptr;      // out [rows, max_top_logprobs], descending; rest -1
  float* top_logprobs = nullptr;   // out, raw
};

}  // namespace tandem::kernels
