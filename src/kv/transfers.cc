#include "kv/transfers.h"

#include <algorithm>

#include "base/check.h"

namespace tandem::kv {

int64_t Transfers::start(bool to_host,
                         std::span<const BlockId> device,
                         std::span<const BlockId> host) {
  TANDEM_CHECK(device.size() == host.size());
  Transfer transfer{next_id_++, to_host, {}, {host.begin(), host.end()}};
  device_.share(transfer.device, device);
  for (const BlockId block : host) host_.retain(block);
  list_.push_back(std::move(transfer));
  return list_.back().id;
}

int32_t Transfers::finish(int64_t id) {
  const auto found =
      std::find_if(list_.begin(), list_.end(), [id](const Transfer& t) { return t.id == id; });
  if (found == list_.end()) return 0;
  const auto blocks = static_cast<int32_t>(found->device.size());
  device_.release(found->device);
  for (const BlockId block : found->host) host_.release(block, /*reuse_first=*/true);
  list_.erase(found);
  return blocks;
}

int32_t Transfers::blocks_to_come() const {
  int32_t count = 0;
  for (const Transfer& transfer : list_)
    if (transfer.to_host)
      count += static_cast<int32_t>(
          std::count_if(transfer.device.begin(), transfer.device.end(), [this](BlockId block) {
            return device_.pool().references(block) == 1;
          }));
  return count;
}

}  // namespace tandem::kv
