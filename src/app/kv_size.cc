#include "app/kv_size.h"

#include <algorithm>

#include "kernels/operators.h"

namespace tandem::app {

Expected<int64_t> kv_blocks(const KvSizeInput& input) {
  const int64_t block_bytes = input.bytes_per_token * kernels::kBlockTokens;
  const int64_t blocks_per_sequence =
      (input.max_model_len + kernels::kBlockTokens - 1) / kernels::kBlockTokens;
  if (input.asked_bytes) {
    const int64_t blocks = *input.asked_bytes / block_bytes;
    if (blocks < 1) {
      return fail(ErrorCode::kInvalidArgument,
                  "--kv-cache-memory-bytes must be at least {} (one block of {} tokens), found {}",
                  block_bytes,
                  kernels::kBlockTokens,
                  *input.asked_bytes);
    }
    return std::min<int64_t>(blocks, INT32_MAX);
  }
  const int64_t wanted = blocks_per_sequence * input.max_num_seqs;
  const int64_t affordable = input.available_bytes / 4 / block_bytes;
  return std::clamp<int64_t>(std::min(wanted, affordable), 1, INT32_MAX);
}

}  // namespace tandem::app
