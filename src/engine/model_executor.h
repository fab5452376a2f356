#pragma once
// The executor that runs a model: model::StepRunner behind the engine's interface.
//
// Owner: Engine. Engine thread. Errors: the runner's.

#include <memory>

#include "engine/executor.h"
#include "model/step_runner.h"

namespace tandem::engine {

class ModelExecutor final : public Executor {
 public:
  // `depth`: launches that may be under way, at most the runner's.
  ModelExecutor(std::unique_ptr<model::StepRunner> runner, int depth);

  Expected<void> launch(const model::Batch& batch) override;
  Expected<void> collect(model::StepResult& result) override;
  int depth() const override { return depth_; }

  bool copies_blocks() const override { return true; }
  Expected<void> copy_blocks(std::span<const BlockCopy> copies) override;
  int32_t host_blocks() const override;
  Expected<void> start_transfer(const TransferOrder& order) override;
  void finished_transfers(bool wait, std::vector<TransferReport>& reports) override;

 private:
  const std::unique_ptr<model::StepRunner> runner_;
  const int depth_;
};

}  // namespace tandem::engine
