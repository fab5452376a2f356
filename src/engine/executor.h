#pragma once
// What the engine thread needs of the machine that computes steps.

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "model/batch.h"
#include "model/block_transfer.h"

namespace tandem::engine {

using model::BlockCopy;
using model::TransferOrder;
using model::TransferReport;

// Owner: Engine. One thread. At most `depth()` launches may wait for their collect; they are
// collected in order.
class Executor {
 public:
  virtual ~Executor() = default;

  // Copies what it needs of `batch` before it returns; the work goes on in the background.
  // An error here or in collect() is a failure of the device, not of a request: every request of
  // the step ends with it.
  virtual Expected<void> launch(const model::Batch& batch) = 0;

  // Waits for the oldest launch. `result` keeps its capacity.
  virtual Expected<void> collect(model::StepResult& result) = 0;

  // 1 or 2: launches that may be under way.
  virtual int depth() const = 0;

  // True when copy_blocks() works; without it the rows of a shared last block are computed again.
  virtual bool copies_blocks() const { return false; }

  // Done before the work of the next launch and after that of the last. Same errors as launch().
  virtual Expected<void> copy_blocks(std::span<const BlockCopy> copies) {
    (void)copies;
    return fail(ErrorCode::kUnsupported, "this executor copies no KV blocks");
  }

  // Blocks of the host tier; 0 = there is none, and the functions below are not called.
  virtual int32_t host_blocks() const { return 0; }

  // Starts one transfer between the device's pool and the host's. It begins after the work of every
  // launch so far; later launches do not touch its blocks until it is reported.
  virtual Expected<void> start_transfer(const TransferOrder& order) {
    (void)order;
    return fail(ErrorCode::kUnsupported, "this executor has no host tier");
  }

  // Appends the transfers that have ended since the last call; with `wait`, waits until there is
  // one.
  virtual void finished_transfers(bool wait, std::vector<TransferReport>& reports) {
    (void)wait;
    (void)reports;
  }
};

}  // namespace tandem::engine
