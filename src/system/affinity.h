#pragma once
// Which CPUs the process may use, and binding threads to some of them. Any thread.

#include <pthread.h>

#include "base/error.h"
#include "system/cpu_set.h"

namespace tandem::system {

// The mask of the process's main thread: what taskset, the cpuset or the container allow. Read it
// before binding the main thread. Empty only if the system refuses to tell.
CpuSet affinity_cpus();

// The mask of one thread.
CpuSet thread_affinity(pthread_t thread);

// Errors: kInvalidArgument for an empty set; kIo when the system refuses (CPUs off-line or
// forbidden).
Expected<void> bind_thread(pthread_t thread, const CpuSet& cpus);

}  // namespace tandem::system
