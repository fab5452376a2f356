#pragma once
// What the engine thread needs of the machine that computes steps.

#include <cstdint>
#include <span>

#include "base/error.h"
#include "model/batch.h"

namespace tandem::engine {

// A block of every KV group, whole: how a choice gets its own copy of a block it is about to write.
struct BlockCopy {
  int32_t source = 0;
  int32_t target = 0;
};

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
};

}  // namespace tandem::engine
