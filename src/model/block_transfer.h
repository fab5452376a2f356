#pragma once
// Whole KV blocks on the move, by number: within the device's pool, or between it and the host's.

#include <cstdint>
#include <vector>

namespace tandem::model {

// A block of every KV group, whole. Within one pool: how a choice gets its own copy of a block that
// it is about to write.
struct BlockCopy {
  int32_t source = 0;
  int32_t target = 0;
};

// Blocks of one sequence on their way to the host or back; source and target in their own pools.
struct TransferOrder {
  int64_t id = 0;
  bool to_host = false;
  std::vector<BlockCopy> copies;
};

struct TransferReport {
  int64_t id = 0;
  bool ok = false;  // false: the target's content means nothing
};

}  // namespace tandem::model
