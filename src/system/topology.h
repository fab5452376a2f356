#pragma once
// The machine as the planner sees it: memory nodes, cores, caches. Only what this process may use.
// Values; any thread.

#include <cstdint>
#include <string>
#include <vector>

#include "system/cpu_set.h"

namespace tandem::system {

struct NumaNode {
  int id = 0;                // the operating system's number
  CpuSet cpus;               // empty for a node that is memory only
  CpuSet one_cpu_per_core;   // the first logical CPU of each core
  int64_t memory_bytes = 0;  // 0: unknown or none
};

struct Topology {
  std::vector<NumaNode> nodes;  // at least one; ascending id
  CpuSet cpus;                  // all nodes together; never empty
  int packages = 1;
  int cores = 1;
  // Bytes of one cache of each level; 0: unknown.
  int64_t l1d_bytes = 0;
  int64_t l2_bytes = 0;
  int64_t l3_bytes = 0;
  int l3_caches = 0;

  // The node that holds `cpu`, or -1.
  int node_of_cpu(int cpu) const;
  // "1 package, 2 cores, 2 CPUs, 1 node (node 0: CPUs 0-1, 23.4 GiB), L2 2 MiB, L3 480 MiB"
  std::string to_string() const;
};

// Reads the machine (tens of milliseconds on large ones; does not move any thread). Where the
// machine tells nothing, the answer is one node with the affinity mask and all memory.
Topology read_topology();
// That answer.
Topology flat_topology();

}  // namespace tandem::system
