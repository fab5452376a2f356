#include "engine/model_executor.h"

#include <algorithm>

namespace tandem::engine {

ModelExecutor::ModelExecutor(std::unique_ptr<model::StepRunner> runner, int depth)
    : runner_(std::move(runner)), depth_(std::clamp(depth, 1, runner_->depth())) {}

Expected<void> ModelExecutor::launch(const model::Batch& batch) { return runner_->launch(batch); }

Expected<void> ModelExecutor::collect(model::StepResult& result) {
  return runner_->collect(result);
}

}  // namespace tandem::engine
