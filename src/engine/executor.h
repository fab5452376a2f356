#pragma once
// What the engine thread needs of the machine that computes steps.

#include "base/error.h"
#include "model/batch.h"

namespace tandem::engine {

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

  virtual int depth() const = 0;
};

}  // namespace tandem::engine
