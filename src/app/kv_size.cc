#include "app/kv_size.h"

#include <algorithm>

#include "kernels/operators.h"

namespace tandem::app {
namespace {

// Of the host tier: the engine counts blocks in 32 bits.
constexpr int64_t kMaxBlocks = 1 << 28;

}  // namespace

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

Expected<int64_t> host_blocks(int64_t bytes, int64_t bytes_per_token, int64_t available_bytes) {
  if (bytes == 0) return 0;
  const int64_t block_bytes = bytes_per_token * kernels::kBlockTokens;
  if (bytes < block_bytes) {
    return fail(ErrorCode::kInvalidArgument,
                "--swap-space must hold at least one block of {} bytes, found {}",
                block_bytes,
                bytes);
  }
  if (bytes > available_bytes) {
    return fail(ErrorCode::kInvalidArgument,
                "--swap-space asks for {} bytes of memory, {} are available",
                bytes,
                available_bytes);
  }
  return std::min<int64_t>(bytes / block_bytes, kMaxBlocks);
}

}  // namespace tandem::app
