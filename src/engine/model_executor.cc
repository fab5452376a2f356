#include "engine/model_executor.h"

#include <algorithm>

namespace tandem::engine {

ModelExecutor::ModelExecutor(std::unique_ptr<model::StepRunner> runner, int depth)
    : runner_(std::move(runner)), depth_(std::clamp(depth, 1, runner_->depth())) {}

Expected<void> ModelExecutor::launch(const model::Batch& batch) { return runner_->launch(batch); }

Expected<void> ModelExecutor::collect(model::StepResult& result) {
  return runner_->collect(result);
}

Expected<void> ModelExecutor::copy_blocks(std::span<const BlockCopy> copies) {
  return runner_->copy_blocks(copies);
}

int32_t ModelExecutor::host_blocks() const { return static_cast<int32_t>(runner_->host_blocks()); }

Expected<void> ModelExecutor::start_transfer(const TransferOrder& order) {
  return runner_->start_transfer(order);
}

void ModelExecutor::finished_transfers(bool wait, std::vector<TransferReport>& reports) {
  runner_->finished_transfers(wait, reports);
}

}  // namespace tandem::engine
