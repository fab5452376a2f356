#pragma once
// What an operator's run function works with. Made by the stream's thread, which is member 0 of the
// device's team while the function runs.

#include <atomic>
#include <utility>

#include "base/check.h"
#include "kernels/host/host_device.h"
#include "kernels/host/scratch_arena.h"
#include "kernels/host/status.h"

namespace tandem::kernels {

class RunContext {
 public:
  RunContext(HostDevice& device, ScratchArena& scratch) : device_(device), scratch_(scratch) {}

  HostDevice& device() const { return device_; }
  // The device as its own type: the run functions of a table know which one it is.
  template <class DerivedDevice>
  DerivedDevice& device_as() const {
    return static_cast<DerivedDevice&>(device_);
  }
  DType activation() const { return device_.info.activation; }
  system::ThreadTeam& team() const {
    TANDEM_CHECK(device_.team != nullptr, "this device has no team");
    return *device_.team;
  }

  // `count` elements, 64-byte aligned, until the run function returns. Member 0 only, outside a
  // team's task (it may throw std::bad_alloc, which the stream reports as kOutOfMemory).
  template <class T>
  T* scratch(size_t count) {
    return scratch_.allocate<T>(count);
  }

  // Reports that the operator failed; the first report counts. Any member of the team.
  template <class... Args>
  void fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
    if (failed_.exchange(true)) return;
    status_ = make_status(code, format, std::forward<Args>(args)...);
  }
  void fail(const Status& status) {
    if (failed_.exchange(true)) return;
    status_ = status;
  }
  bool failed() const { return failed_.load(std::memory_order_relaxed); }
  // Member 0, after the team's tasks are done.
  const Status& status() const { return status_; }

 private:
  HostDevice& device_;
  ScratchArena& scratch_;
  std::atomic<bool> failed_{false};
  Status status_;
};

}  // namespace tandem::kernels
