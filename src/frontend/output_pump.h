#pragma once
// A few threads that turn engine events into text, so that the engine thread only hands over and
// HTTP threads only move bytes. Each task is drained by one thread at a time, in order. Idle
// threads sleep.

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace tandem::frontend {

class PumpTask {
 public:
  virtual ~PumpTask() = default;
  // Works off what has arrived. True: more arrived meanwhile, call again later.
  virtual bool drain() = 0;
};

// Owner: the program. post() from any thread; the destructor works off what is queued and joins.
class OutputPump {
 public:
  explicit OutputPump(int threads);
  ~OutputPump();
  OutputPump(const OutputPump&) = delete;
  OutputPump& operator=(const OutputPump&) = delete;

  // The caller makes sure that a task is not queued twice (Generation::on_event).
  void post(std::shared_ptr<PumpTask> task);

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::shared_ptr<PumpTask>> tasks_;
  bool stopping_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace tandem::frontend
