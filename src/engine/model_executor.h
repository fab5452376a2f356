#pragma once
// The real executor: steps on a model::StepRunner.

#include <memory>

#include "engine/executor.h"
#include "model/step_runner.h"

namespace tandem::engine {

// Owner: Engine. The model and its devices outlive it.
class ModelExecutor final : public Executor {
 public:
  // `depth`: 1 = a step is planned when the one before is done (the CPU, where planning would only compete with the
  // step for cores); 2 = planned while it runs.
  explicit ModelExecutor(std::unique_ptr<model::StepRunner> runner, int depth = 1);

  Expected<void> launch(const model::Batch& batch) override { return runner_->launch(batch); }
  Expected<void> collect(model::StepResult& result) override { return runner_->collect(result); }
  int depth() const override { return depth_; }

 private:
  std::unique_ptr<model::StepRunner> runner_;
  int depth_;
};

}  // namespace tandem::engine
