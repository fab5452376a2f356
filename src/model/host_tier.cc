#include "model/host_tier.h"

#include <chrono>
#include <exception>
#include <system_error>
#include <utility>

#include "base/log.h"

namespace tandem::model {
namespace {

using tensor::to_expected;

// A transfer takes long enough for one that sleeps to wake.
constexpr system::SpinBudget kPatience{};

}  // namespace

Expected<std::unique_ptr<HostTier>> HostTier::create(kernels::DeviceRef device,
                                                     const KvPool& pool,
                                                     int64_t blocks) {
  int64_t bytes = 0;
  if (blocks < 1 || blocks > INT32_MAX ||
      __builtin_mul_overflow(blocks, pool.block_bytes(), &bytes)) {
    return fail(ErrorCode::kInvalidArgument, "{} KV blocks of the host cannot be had", blocks);
  }
  std::unique_ptr<HostTier> tier(new HostTier(device, pool, blocks));
  TANDEM_ASSIGN(tier->memory_,
                tensor::Buffer::allocate(
                    device.device,
                    device.api->memory,
                    {.bytes = static_cast<size_t>(bytes), .kind = tensor::MemoryKind::kPinned}));
  TANDEM_ASSIGN(tier->stream_, weights::OwnedStream::create(device));
  try {
    tier->thread_ = std::thread([raw = tier.get()] { raw->work(); });
  } catch (const std::system_error& error) {
    return fail(ErrorCode::kUnavailable, "no thread for KV transfers: {}", error.what());
  }
  return tier;
}

HostTier::~HostTier() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  reached_.advance();  // wakes await(), which sees stopping_
  thread_.join();
}

void HostTier::reach(void* self) { static_cast<HostTier*>(self)->reached_.advance(); }

Expected<void> HostTier::start(tensor::Stream* steps, const TransferOrder& order) {
  for (const BlockCopy& copy : order.copies) {
    const int32_t on_device = order.to_host ? copy.source : copy.target;
    const int32_t on_host = order.to_host ? copy.target : copy.source;
    if (on_device < 0 || on_device >= pool_.blocks() || on_host < 0 || on_host >= blocks_) {
      return fail(ErrorCode::kInvalidArgument,
                  "transfer of KV block {} to {}: outside the pools",
                  copy.source,
                  copy.target);
    }
  }
  TANDEM_TRY(to_expected(device_.api->memory.launch_host(device_.device, steps, &reach, this)));
  ++tickets_;
  const std::lock_guard lock(mutex_);
  ended_.reserve(ended_.size() + static_cast<size_t>(under_way_) +
                 1);  // the thread needs no memory
  jobs_.push_back({order, tickets_});
  ++under_way_;
  changed_.notify_all();
  return {};
}

void HostTier::finished(bool wait, std::vector<TransferReport>& reports) {
  std::unique_lock lock(mutex_);
  if (wait) changed_.wait(lock, [this] { return !ended_.empty() || under_way_ == 0; });
  reports.insert(reports.end(), ended_.begin(), ended_.end());
  ended_.clear();
}

void HostTier::steps_idle() {
  while (reached_.value() != tickets_) reached_.advance();
}

void HostTier::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (stopping_) return;
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    if (!await(job.ticket)) return;
    const Expected<void> done = copy_all(job.order);
    if (!done) {
      log_warning("KV transfer {} has failed: {}", job.order.id, log_safe(done.error().message));
    }
    lock.lock();
    ended_.push_back({job.order.id, done.has_value()});
    --under_way_;
    changed_.notify_all();
  }
}

// False: the tier is going.
bool HostTier::await(uint32_t ticket) {
  for (;;) {
    const uint32_t now = reached_.value();
    if (stopping_) return false;
    if (static_cast<int32_t>(now - ticket) >= 0) return true;  // the numbers wrap around
    reached_.wait_past(now, kPatience);
  }
}

Expected<void> HostTier::copy_all(const TransferOrder& order) {
  const tensor::MemoryApi& memory = device_.api->memory;
  const auto bytes = static_cast<size_t>(pool_.block_bytes());
  Expected<void> submitted;
  for (const BlockCopy& copy : order.copies) {
    void* target = order.to_host ? host_block(copy.target) : pool_.block(copy.target);
    const void* source = order.to_host ? pool_.block(copy.source) : host_block(copy.source);
    submitted = to_expected(memory.copy(device_.device, stream_.get(), target, source, bytes));
    if (!submitted) break;
  }
  // In any case: nothing may touch the blocks any more once the transfer is reported.
  const auto done = to_expected(memory.synchronize(device_.device, stream_.get()));
  return submitted ? done : submitted;
}

}  // namespace tandem::model
