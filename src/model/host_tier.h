#pragma once
// The KV pool's second tier: blocks in pinned host memory, and the transfers that bring them there
// and back beside the steps. Which block belongs to whom is kv/'s business.
//
// A thread of its own drives a stream of its own, one transfer after the other: a long one fills no
// queue that the engine thread would have to wait for, and a failed one takes no other along.
//
// Order: a transfer begins when all that was submitted to the steps' stream before start() has run,
// known by a host function in that stream. The other direction is the caller's: no later step may
// touch the blocks until the transfer is reported.
//
// Owner: StepRunner. One thread. Errors: start() refuses what is outside the pools; what goes wrong
// later is a report that is not ok.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "kernels/device.h"
#include "model/block_transfer.h"
#include "model/kv_pool.h"
#include "system/gate.h"
#include "tensor/buffer.h"
#include "weights/owned_stream.h"

namespace tandem::model {

class HostTier {
 public:
  // blocks >= 1. The device and `pool` must outlive the tier. kOutOfMemory names the bytes;
  // kUnavailable when the system gives no thread.
  static Expected<std::unique_ptr<HostTier>> create(kernels::DeviceRef device,
                                                    const KvPool& pool,
                                                    int64_t blocks);
  HostTier(const HostTier&) = delete;
  HostTier& operator=(const HostTier&) = delete;
  // The steps' stream is idle by then. The transfer at work ends first, waiting ones are dropped.
  ~HostTier();

  int64_t blocks() const { return blocks_; }

  // After an error nothing was started and there is no report. `steps` is always the same stream.
  Expected<void> start(tensor::Stream* steps, const TransferOrder& order);

  // Appends what has ended since the last call; with `wait`, sleeps until something has, unless
  // nothing is under way.
  void finished(bool wait, std::vector<TransferReport>& reports);

  // The steps' stream is idle: nothing in it is to be waited for, even if a broken device never ran
  // the host function.
  void steps_idle();

 private:
  struct Job {
    TransferOrder order;
    uint32_t ticket = 0;  // begins when `reached_` has come so far
  };

  HostTier(kernels::DeviceRef device, const KvPool& pool, int64_t blocks)
      : device_(device), pool_(pool), blocks_(blocks) {}

  static void reach(void* self);
  void work();
  bool await(uint32_t ticket);
  Expected<void> copy_all(const TransferOrder& order);
  std::byte* host_block(int32_t block) const {
    return memory_.as<std::byte>() + int64_t{block} * pool_.block_bytes();
  }

  const kernels::DeviceRef device_;
  const KvPool& pool_;
  const int64_t blocks_;
  tensor::Buffer memory_;        // pinned: [block][as in the pool]
  weights::OwnedStream stream_;  // the thread's

  system::Gate reached_;  // tickets whose place in the steps' stream has been reached
  uint32_t tickets_ = 0;  // given out; the starting thread's
  std::atomic<bool> stopping_{false};

  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  std::vector<TransferReport> ended_;
  int64_t under_way_ = 0;  // started, not ended

  std::thread thread_;
};

}  // namespace tandem::model
