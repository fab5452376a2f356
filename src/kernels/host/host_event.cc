#include "kernels/host/host_event.h"

#include <utility>

namespace tandem::kernels {

HostEvent::~HostEvent() {
  std::unique_lock lock(mutex_);
  reached_.wait(lock, [this] { return is_reached(); });
}

uint32_t HostEvent::begin_record() {
  std::lock_guard lock(mutex_);
  ++pending_;
  return ++recorded_;
}

void HostEvent::complete(uint32_t generation,
                         uint32_t sequence,
                         const std::shared_ptr<FailureLog>& log) {
  Status status;
  uint32_t serial = 0;
  const bool failed = log->must_skip(sequence) && log->current(&status, &serial);
  std::lock_guard lock(mutex_);
  --pending_;
  if (generation == recorded_) {
    status_ = failed ? status : Status{};
    serial_ = serial;
    log_ = failed ? log : nullptr;
  }
  // Under the lock: a waiter may destroy the event as soon as it gets it.
  reached_.notify_all();
}

Status HostEvent::wait() {
  std::unique_lock lock(mutex_);
  reached_.wait(lock, [this] { return is_reached(); });
  if (log_) log_->mark_seen(serial_);
  return status_;
}

bool HostEvent::query() {
  std::lock_guard lock(mutex_);
  return is_reached();
}

}  // namespace tandem::kernels
