#pragma once
// A few threads and a bounded queue of jobs. Private to net.
// try_submit: any thread. start, stop: the owner. Jobs must not throw.

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tandem::net {

class WorkerPool {
 public:
  using Job = std::move_only_function<void()>;

  explicit WorkerPool(size_t max_queued_jobs) : max_queued_jobs_(max_queued_jobs) {}
  ~WorkerPool() { stop(); }

  void start(int threads);
  // False, and `job` is left untouched: the queue is full, or the pool stopped.
  bool try_submit(Job& job);
  // Throws away jobs that have not begun, waits for those that have.
  void stop();

 private:
  void run();

  const size_t max_queued_jobs_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::deque<Job> jobs_;
  std::vector<std::thread> threads_;
};

}  // namespace tandem::net
