#include "kernels/host/host_stream.h"

#include <exception>
#include <new>
#include <system_error>

#include "base/log.h"
#include "system/float_environment.h"

namespace tandem::kernels {
namespace {

// Looks at `value` for a few microseconds, then sleeps until it is no longer `old`.
void wait_for_change(const std::atomic<uint32_t>& value, uint32_t old) {
  constexpr int kLooks = 200;
  for (int i = 0; i < kLooks; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("isb" ::: "memory");
#endif
  }
  value.wait(old);
}

}  // namespace

Status HostStream::create(HostDevice& device, std::unique_ptr<HostStream>* out) {
  try {
    std::unique_ptr<HostStream> stream(new HostStream(device));
    stream->thread_ = std::thread([raw = stream.get()] { raw->loop(); });
    *out = std::move(stream);
    return {};
  } catch (const std::bad_alloc&) {
    return make_status(ErrorCode::kOutOfMemory, "no memory for a stream of {}", device.info.name);
  } catch (const std::system_error& error) {
    return make_status(ErrorCode::kUnavailable,
                       "no thread for a stream of {}: {}",
                       device.info.name,
                       error.what());
  }
}

HostStream::HostStream(HostDevice& device)
    : device_(device), ring_(std::make_unique<Command[]>(kRingCommands)) {}

HostStream::~HostStream() {
  if (!thread_.joinable()) return;
  push(Kind::kStop, nullptr, nullptr, 0);
  thread_.join();
}

void HostStream::push(Kind kind, Run run, const void* arguments, size_t bytes) {
  TANDEM_CHECK(bytes <= kMaxArgumentBytes);
  const uint32_t sequence = submitted_.load(std::memory_order_relaxed);
  for (uint32_t done = done_.load(); sequence - done == kRingCommands; done = done_.load()) {
    done_.wait(done);
  }
  Command& command = ring_[sequence % kRingCommands];
  command.kind = kind;
  command.run = run;
  if (bytes > 0) std::memcpy(command.arguments, arguments, bytes);
  failures_->set_submitted(sequence + 1);
  submitted_.store(sequence + 1);
  submitted_.notify_one();
}

void HostStream::submit_record(HostEvent& event) {
  const RecordArgs args{&event, event.begin_record()};
  push(Kind::kRecord, nullptr, &args, sizeof(args));
}

void HostStream::submit_host(void (*function)(void*), void* argument) {
  const HostFunctionArgs args{function, argument};
  push(Kind::kHostFunction, nullptr, &args, sizeof(args));
}

Status HostStream::synchronize() {
  const uint32_t target = submitted_.load(std::memory_order_relaxed);
  for (uint32_t done = done_.load(); done != target; done = done_.load()) {
    wait_for_change(done_, done);
  }
  return failures_->take();
}

void HostStream::loop() {
  // The stream's thread is member 0 of the team: the same place and the same arithmetic.
  const system::FloatEnvironment float_environment;
  if (device_.team != nullptr) {
    if (const auto bound = device_.team->bind_calling_thread(); !bound) {
      log_warning("{}: {}", device_.info.name, bound.error().to_line());
    }
  }
  for (uint32_t sequence = 0;; ++sequence) {
    while (submitted_.load(std::memory_order_acquire) == sequence) {
      wait_for_change(submitted_, sequence);
    }
    const Command& command = ring_[sequence % kRingCommands];
    const bool stop = command.kind == Kind::kStop;
    if (!stop) execute(command, sequence);
    done_.store(sequence + 1);
    done_.notify_all();
    if (stop) return;
  }
}

void HostStream::execute(const Command& command, uint32_t sequence) {
  switch (command.kind) {
    case Kind::kOperator: {
      if (failures_->must_skip(sequence)) return;
      std::lock_guard lock(device_.team_mutex);
      run_work(command);
      return;
    }
    case Kind::kTransfer:
      if (!failures_->must_skip(sequence)) run_work(command);
      return;
    case Kind::kRecord: {
      RecordArgs args;
      std::memcpy(&args, command.arguments, sizeof(args));
      args.event->complete(args.generation, sequence, failures_);
      return;
    }
    case Kind::kHostFunction: {
      HostFunctionArgs args;
      std::memcpy(&args, command.arguments, sizeof(args));
      args.function(args.argument);
      return;
    }
    case Kind::kStop:
      return;
  }
}

void HostStream::run_work(const Command& command) {
  RunContext context(device_, scratch_);
  try {
    scratch_.reset();
    command.run(context, command.arguments);
  } catch (const std::bad_alloc&) {
    context.fail(
        ErrorCode::kOutOfMemory, "no scratch memory for an operator of {}", device_.info.name);
  } catch (const std::exception& error) {
    context.fail(ErrorCode::kInternal, "{}: {}", device_.info.name, error.what());
  }
  if (context.failed()) failures_->report(context.status());
}

}  // namespace tandem::kernels
