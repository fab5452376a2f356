#include "kernels/host/failure_log.h"

namespace tandem::kernels {

bool FailureLog::must_skip(uint32_t sequence) {
  if (!failed_.load()) return false;
  std::lock_guard lock(mutex_);
  if (!seen_) return true;
  if (static_cast<int32_t>(sequence - resume_at_) >= 0) {
    failed_.store(false);
    return false;
  }
  skipped_after_seen_ = true;
  return true;
}

void FailureLog::report(const Status& status) {
  std::lock_guard lock(mutex_);
  if (failed_.load()) return;
  status_ = status;
  ++serial_;
  seen_ = false;
  skipped_after_seen_ = false;
  failed_.store(true);
}

bool FailureLog::current(Status* status, uint32_t* serial) {
  if (!failed_.load()) return false;
  std::lock_guard lock(mutex_);
  *status = status_;
  *serial = serial_;
  return true;
}

void FailureLog::mark_seen(uint32_t serial) {
  std::lock_guard lock(mutex_);
  if (!failed_.load() || seen_ || serial != serial_) return;
  seen_ = true;
  resume_at_ = submitted_.load();
}

Status FailureLog::take() {
  std::lock_guard lock(mutex_);
  const bool unseen = failed_.load() && (!seen_ || skipped_after_seen_);
  failed_.store(false);
  return unseen ? status_ : Status{};
}

}  // namespace tandem::kernels
