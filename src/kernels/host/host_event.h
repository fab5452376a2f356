#pragma once
// A point in a stream that threads can wait for. Any thread.

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

#include "kernels/host/failure_log.h"

namespace tandem::kernels {

class HostEvent {
 public:
  HostEvent() = default;
  HostEvent(const HostEvent&) = delete;
  HostEvent& operator=(const HostEvent&) = delete;
  // Waits until the last recorded point is reached: until then the stream points to the event.
  ~HostEvent();

  // Submitting thread: opens a new point and returns its number.
  uint32_t begin_record();
  // Stream's thread: the point is reached; `sequence` is the number of the record command.
  void complete(uint32_t generation, uint32_t sequence, const std::shared_ptr<FailureLog>& log);

  // Until the last recorded point is reached. Returns the failure of the work before it (again at
  // every call until the next record) and lets the stream know that it has been seen.
  Status wait();
  bool query();

 private:
  bool is_reached() const { return pending_ == 0; }

  std::mutex mutex_;
  std::condition_variable reached_;
  uint32_t recorded_ = 0;  // number of the newest point
  uint32_t pending_ = 0;   // points not reached yet, on any stream
  Status status_;
  uint32_t serial_ = 0;
  std::shared_ptr<FailureLog> log_;
};

inline HostEvent& host_event(tensor::Event* event) { return *reinterpret_cast<HostEvent*>(event); }

}  // namespace tandem::kernels
