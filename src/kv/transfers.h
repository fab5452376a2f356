#pragma once
// Copies of blocks between the device's pool and the host's that are under way. A transfer holds
// its blocks on both sides until it has ended, so whoever asked for it may go away meanwhile: that
// is what cancelling is.
//
// Owner: the engine's state. One thread; const functions only read. Errors: none.

#include <cstdint>
#include <span>
#include <vector>

#include "kv/block_manager.h"

namespace tandem::kv {

struct Transfer {
  int64_t id = 0;
  bool to_host = false;
  BlockTable device;
  BlockTable host;  // block i is copied from or to device block i
};

class Transfers {
 public:
  // Both outlive this object.
  Transfers(BlockManager& device, BlockPool& host) : device_(device), host_(host) {}

  int64_t start(bool to_host, std::span<const BlockId> device, std::span<const BlockId> host);
  // Done or failed: lets the blocks go. Number of blocks; 0 when there is no such transfer.
  int32_t finish(int64_t id);

  std::span<const Transfer> under_way() const { return list_; }

  // Device blocks that become free when all transfers to the host have ended.
  int32_t blocks_to_come() const;

 private:
  BlockManager& device_;
  BlockPool& host_;
  std::vector<Transfer> list_;
  int64_t next_id_ = 1;
};

}  // namespace tandem::kv
