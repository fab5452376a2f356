#include "frontend/output_pump.h"

#include <utility>

namespace tandem::frontend {

OutputPump::OutputPump(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

OutputPump::~OutputPump() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  threads_.clear();
}

void OutputPump::post(std::shared_ptr<PumpTask> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  wake_.notify_one();
}

void OutputPump::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    const std::shared_ptr<PumpTask> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    const bool more = task->drain();
    lock.lock();
    if (more) tasks_.push_back(task);
  }
}

}  // namespace tandem::frontend
