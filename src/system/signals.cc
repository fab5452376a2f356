#include "system/signals.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "base/check.h"
#include "system/os_error.h"

namespace tandem::system {

Expected<SignalWaiter> SignalWaiter::create() {
  sigset_t mask;
  ::sigemptyset(&mask);
  ::sigaddset(&mask, SIGTERM);
  ::sigaddset(&mask, SIGINT);
  SignalWaiter waiter;
  waiter.signals_ = UniqueFd(::signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK));
  waiter.stop_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!waiter.signals_.valid() || !waiter.stop_.valid()) {
    return fail_errno(errno, "cannot prepare to wait for signals");
  }
  const int error = ::pthread_sigmask(SIG_BLOCK, &mask, &waiter.old_mask_);
  if (error != 0) return fail_errno(error, "cannot block signals");
  struct sigaction ignore{};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, &waiter.old_pipe_action_);
  waiter.installed_ = true;
  return waiter;
}

SignalWaiter::SignalWaiter(SignalWaiter&& other) noexcept
    : signals_(std::move(other.signals_)),
      stop_(std::move(other.stop_)),
      old_mask_(other.old_mask_),
      old_pipe_action_(other.old_pipe_action_),
      installed_(std::exchange(other.installed_, false)) {}

SignalWaiter::~SignalWaiter() {
  if (!installed_) return;
  // A second SIGTERM that nobody waited for must not kill a program that is ending well.
  signalfd_siginfo unread{};
  while (::read(signals_.get(), &unread, sizeof unread) == sizeof unread) {
  }
  ::sigaction(SIGPIPE, &old_pipe_action_, nullptr);
  ::pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
}

std::optional<int> SignalWaiter::wait(std::stop_token stop) {
  const std::stop_callback wake(stop, [this] {
    const uint64_t one = 1;
    // Can only fail when the counter is full, and then the waiter is awake already.
    [[maybe_unused]] const ssize_t ignored = ::write(stop_.get(), &one, sizeof one);
  });
  for (;;) {
    signalfd_siginfo info{};
    if (::read(signals_.get(), &info, sizeof info) == sizeof info) {
      return static_cast<int>(info.ssi_signo);
    }
    if (stop.stop_requested()) {
      uint64_t drained = 0;  // so that a later wait with another token sleeps
      [[maybe_unused]] const ssize_t ignored = ::read(stop_.get(), &drained, sizeof drained);
      return std::nullopt;
    }
    pollfd sources[] = {{.fd = signals_.get(), .events = POLLIN, .revents = 0},
                        {.fd = stop_.get(), .events = POLLIN, .revents = 0}};
    const int ready = ::poll(sources, 2, -1);
    TANDEM_CHECK(ready > 0 || errno == EINTR, "waiting for signals failed");
  }
}

}  // namespace tandem::system
