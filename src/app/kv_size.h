#pragma once
// How many KV blocks a server takes. Pure.

#include <cstdint>
#include <optional>

#include "base/error.h"

namespace tandem::app {

struct KvSizeInput {
  int64_t bytes_per_token = 0;
  int64_t max_model_len = 0;  // tokens
  int64_t max_num_seqs = 0;
  int64_t available_bytes = 0;         // of memory, weights already loaded
  std::optional<int64_t> asked_bytes;  // --kv-cache-memory-bytes
};

// Blocks of kernels::kBlockTokens tokens: what max_num_seqs sequences of full length need, at most
// a quarter of the available memory; or what was asked for. At least one block. kInvalidArgument if
// `asked_bytes` holds less than one.
Expected<int64_t> kv_blocks(const KvSizeInput& input);

// Blocks of the host tier in `bytes` (--swap-space); 0 for 0. kInvalidArgument if less than one
// block or more than `available_bytes`.
Expected<int64_t> host_blocks(int64_t bytes, int64_t bytes_per_token, int64_t available_bytes);

}  // namespace tandem::app
