#pragma once
// A stream of a host device: a thread that runs commands in order from a fixed ring. Submitting
// allocates nothing; a full ring makes the submitter wait. An idle stream sleeps.
//
// Threads: one thread at a time submits, synchronizes and destroys. A function given to
// submit_host() must not submit to its own stream (the ring may be full).

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <type_traits>

#include "kernels/host/host_event.h"
#include "kernels/host/run_context.h"

namespace tandem::kernels {

class HostStream {
 public:
  static constexpr uint32_t kRingCommands = 1024;   // a power of two
  static constexpr size_t kMaxArgumentBytes = 320;  // of the largest operator

  // kUnavailable when the system gives no thread, kOutOfMemory.
  static Status create(HostDevice& device, std::unique_ptr<HostStream>* out);
  // Runs what was submitted, then ends the thread.
  ~HostStream();
  HostStream(const HostStream&) = delete;
  HostStream& operator=(const HostStream&) = delete;

  using Run = void (*)(RunContext&, const void* arguments);

  // An operator: runs with the device's team; skipped after a failure (failure_log.h).
  void submit_operator(Run run, const void* arguments, size_t bytes) {
    push(Kind::kOperator, run, arguments, bytes);
  }
  // The stream's thread alone, without the team; skipped after a failure.
  void submit_transfer(Run run, const void* arguments, size_t bytes) {
    push(Kind::kTransfer, run, arguments, bytes);
  }
  void submit_record(HostEvent& event);
  void submit_host(void (*function)(void*), void* argument);

  // Until everything submitted has run; the failure not yet returned.
  Status synchronize();

 private:
  enum class Kind : int32_t { kOperator, kTransfer, kRecord, kHostFunction, kStop };
  struct alignas(64) Command {
    Run run = nullptr;
    Kind kind = Kind::kStop;
    alignas(16) std::byte arguments[kMaxArgumentBytes];
  };
  struct RecordArgs {
    HostEvent* event;
    uint32_t generation;
  };
  struct HostFunctionArgs {
    void (*function)(void*);
    void* argument;
  };

  explicit HostStream(HostDevice& device);
  void push(Kind kind, Run run, const void* arguments, size_t bytes);
  void loop();
  void execute(const Command& command, uint32_t sequence);
  void run_work(const Command& command);

  HostDevice& device_;
  ScratchArena scratch_;
  std::shared_ptr<FailureLog> failures_ = std::make_shared<FailureLog>();
  std::unique_ptr<Command[]> ring_;
  alignas(64) std::atomic<uint32_t> submitted_{0};
  alignas(64) std::atomic<uint32_t> done_{0};
  std::thread thread_;
};

inline HostStream& host_stream(Stream* stream) { return *reinterpret_cast<HostStream*>(stream); }

// submit<LinearArgs, &run_linear>(stream, args): copies `args` and runs `kRun` in stream order.
template <class Args, void (*kRun)(RunContext&, const Args&)>
void submit(HostStream& stream, const Args& args) {
  static_assert(std::is_trivially_copyable_v<Args>);
  static_assert(sizeof(Args) <= HostStream::kMaxArgumentBytes && alignof(Args) <= 16);
  stream.submit_operator(
      [](RunContext& context, const void* arguments) {
        kRun(context, *static_cast<const Args*>(arguments));
      },
      &args,
      sizeof(Args));
}

}  // namespace tandem::kernels
