#include "system/affinity.h"

#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <vector>

#include "system/os_error.h"

namespace tandem::system {

namespace {

struct FreeMask {
  void operator()(cpu_set_t* mask) const { CPU_FREE(mask); }
};
using Mask = std::unique_ptr<cpu_set_t, FreeMask>;

constexpr size_t mask_bytes() { return CPU_ALLOC_SIZE(CpuSet::kMaxCpus); }

Mask empty_mask() {
  Mask mask(CPU_ALLOC(CpuSet::kMaxCpus));
  if (mask) CPU_ZERO_S(mask_bytes(), mask.get());
  return mask;
}

CpuSet to_cpu_set(const cpu_set_t* mask) {
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CpuSet::kMaxCpus; ++cpu) {
    if (CPU_ISSET_S(cpu, mask_bytes(), mask)) cpus.push_back(cpu);
  }
  return CpuSet(std::move(cpus));
}

}  // namespace

CpuSet affinity_cpus() {
  const Mask mask = empty_mask();
  // The process id is the main thread's id: a bound worker that asks still sees the whole.
  if (!mask || ::sched_getaffinity(::getpid(), mask_bytes(), mask.get()) != 0) return {};
  return to_cpu_set(mask.get());
}

CpuSet thread_affinity(pthread_t thread) {
  const Mask mask = empty_mask();
  if (!mask || ::pthread_getaffinity_np(thread, mask_bytes(), mask.get()) != 0) return {};
  return to_cpu_set(mask.get());
}

Expected<void> bind_thread(pthread_t thread, const CpuSet& cpus) {
  if (cpus.empty()) return fail(ErrorCode::kInvalidArgument, "no CPU to bind a thread to");
  const Mask mask = empty_mask();
  if (!mask) return fail(ErrorCode::kOutOfMemory, "no memory for a CPU mask");
  for (const int cpu : cpus.cpus()) CPU_SET_S(cpu, mask_bytes(), mask.get());
  const int error = ::pthread_setaffinity_np(thread, mask_bytes(), mask.get());
  if (error != 0) return fail_errno(error, "cannot bind a thread to CPUs {}", cpus.to_string());
  return {};
}

}  // namespace tandem::system
