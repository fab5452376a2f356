#include "engine/model_executor.h"

#include "base/check.h"

namespace tandem::engine {

ModelExecutor::ModelExecutor(std::unique_ptr<model::StepRunner> runner, int depth)
    : runner_(std::move(runner)), depth_(depth) {
  TANDEM_CHECK(depth_ >= 1 && depth_ <= model::StepRunner::kDepth);
}

}  // namespace tandem::engine
