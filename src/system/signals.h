#pragma once
// SIGTERM and SIGINT as something a thread waits for, not something that interrupts.

#include <signal.h>

#include <optional>
#include <stop_token>

#include "base/error.h"
#include "system/unique_fd.h"

namespace tandem::system {

// Made first in main, before any other thread, so that all threads inherit the blocked signals.
// From then on SIGTERM and SIGINT wait for wait(), and a write to a closed connection is an error
// instead of SIGPIPE. One object at a time; ends on the thread that made it, putting everything
// back. Programs started meanwhile inherit the blocked mask.
class SignalWaiter {
 public:
  static Expected<SignalWaiter> create();
  SignalWaiter(SignalWaiter&& other) noexcept;
  SignalWaiter& operator=(SignalWaiter&&) = delete;
  ~SignalWaiter();

  // Sleeps until a signal comes (its number: SIGTERM or SIGINT) or `stop` is asked for (nullopt).
  // Each signal is reported once; call again for a second. Signals sent before the call count.
  // From one thread at a time.
  std::optional<int> wait(std::stop_token stop);

 private:
  SignalWaiter() = default;

  UniqueFd signals_;  // signalfd
  UniqueFd stop_;     // eventfd
  sigset_t old_mask_{};
  struct sigaction old_pipe_action_{};
  bool installed_ = false;
};

}  // namespace tandem::system
