#include "net/worker_pool.h"

#include <pthread.h>

#include <utility>

namespace tandem::net {

void WorkerPool::start(int threads) {
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this] { run(); });
    pthread_setname_np(threads_.back().native_handle(), "http-worker");
  }
}

bool WorkerPool::try_submit(Job& job) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || jobs_.size() >= max_queued_jobs_) return false;
    jobs_.push_back(std::move(job));
  }
  changed_.notify_one();
  return true;
}

void WorkerPool::run() {
  for (;;) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (stopping_) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
  }
}

void WorkerPool::stop() {
  std::deque<Job> abandoned;  // destroyed outside the lock: jobs hold writers
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    abandoned.swap(jobs_);
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace tandem::net
