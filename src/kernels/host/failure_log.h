#pragma once
// The first failure of a stream's work, kept until someone is told.
//
// Work after a failed operator would compute on garbage (ids read from it may lie anywhere), so the
// stream skips operators and copies from the failure on. Once it has been returned, by
// synchronize() or by waiting for an event, work that is submitted after that moment runs again.
// Events complete and host functions run all the while, so that nobody waits for ever.

#include <atomic>
#include <cstdint>
#include <mutex>

#include "kernels/host/status.h"

namespace tandem::kernels {

// Shared by a stream and the events recorded on it, which may outlive it.
class FailureLog {
 public:
  // Submitting thread: so many commands are submitted (modulo 2^32).
  void set_submitted(uint32_t count) { submitted_.store(count); }

  // Stream's thread: command number `sequence` must not run.
  bool must_skip(uint32_t sequence);
  // Stream's thread.
  void report(const Status& status);
  // Stream's thread: the failure in force, if there is one, and its number for mark_seen().
  bool current(Status* status, uint32_t* serial);

  // Any thread: the failure has been returned to a caller.
  void mark_seen(uint32_t serial);
  // Submitting thread, nothing in flight: the failure not yet returned, or success; starts afresh.
  Status take();

 private:
  std::atomic<uint32_t> submitted_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  Status status_;
  uint32_t serial_ = 0;
  uint32_t resume_at_ = 0;  // once seen_
  bool seen_ = false;
  bool skipped_after_seen_ = false;
};

}  // namespace tandem::kernels
