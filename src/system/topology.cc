#include "system/topology.h"

#include <fmt/core.h>
#include <hwloc.h>

#include <algorithm>
#include <memory>
#include <type_traits>

#include "system/affinity.h"
#include "system/cgroup.h"

namespace tandem::system {

namespace {

struct Destroy {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using TopologyHandle = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, Destroy>;

TopologyHandle load() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return nullptr;
  TopologyHandle handle(raw);
#if HWLOC_API_VERSION >= 0x20500
  // Discovery would otherwise bind the calling thread to one CPU after another.
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING);
#endif
  if (hwloc_topology_load(raw) != 0) return nullptr;
  return handle;
}

CpuSet to_cpu_set(hwloc_const_bitmap_t bitmap) {
  std::vector<int> cpus;
  if (bitmap == nullptr) return {};
  for (int cpu = hwloc_bitmap_first(bitmap); cpu >= 0 && cpu < CpuSet::kMaxCpus;
       cpu = hwloc_bitmap_next(bitmap, cpu)) {
    cpus.push_back(cpu);
  }
  return CpuSet(std::move(cpus));
}

// Of each core inside `within`, the first CPU that the mask allows.
CpuSet first_cpus_of_cores(hwloc_topology_t topology, const CpuSet& within) {
  std::vector<int> cpus;
  hwloc_obj_t core = nullptr;
  while ((core = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, core)) != nullptr) {
    const CpuSet threads = to_cpu_set(core->cpuset).intersect(within);
    if (!threads.empty()) cpus.push_back(threads.cpus().front());
  }
  return CpuSet(std::move(cpus));
}

int64_t cache_bytes(hwloc_topology_t topology, hwloc_obj_type_t type) {
  const hwloc_obj_t cache = hwloc_get_obj_by_type(topology, type, 0);
  return cache == nullptr ? 0 : static_cast<int64_t>(cache->attr->cache.size);
}

NumaNode read_node(hwloc_obj_t object) {
  NumaNode node;
  node.id = static_cast<int>(object->os_index);
  node.cpus = to_cpu_set(object->cpuset);
  node.memory_bytes = static_cast<int64_t>(object->attr->numanode.local_memory);
  return node;
}

std::string bytes_text(int64_t bytes) {
  if (bytes >= int64_t{1} << 30) return fmt::format("{:.1f} GiB", bytes / 1073741824.0);
  if (bytes >= int64_t{1} << 20) return fmt::format("{:.4g} MiB", bytes / 1048576.0);
  return fmt::format("{:.4g} KiB", bytes / 1024.0);
}

std::string count_text(int count, const char* word) {
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
}

}  // namespace

int Topology::node_of_cpu(int cpu) const {
  for (const NumaNode& node : nodes) {
    if (node.cpus.contains(cpu)) return node.id;
  }
  return -1;
}

std::string Topology::to_string() const {
  std::string text = fmt::format("{}, {}, {}, {} (",
                                 count_text(packages, "package"),
                                 count_text(cores, "core"),
                                 count_text(cpus.size(), "CPU"),
                                 count_text(static_cast<int>(nodes.size()), "node"));
  for (const NumaNode& node : nodes) {
    if (&node != nodes.data()) text += "; ";
    text += fmt::format("node {}: CPUs {}, {}",
                        node.id,
                        node.cpus.empty() ? "none" : node.cpus.to_string(),
                        bytes_text(node.memory_bytes));
  }
  text += ")";
  if (l2_bytes > 0) text += ", L2 " + bytes_text(l2_bytes);
  if (l3_bytes > 0) text += ", L3 " + bytes_text(l3_bytes);
  return text;
}

Topology flat_topology() {
  Topology flat;
  flat.cpus = affinity_cpus();
  if (flat.cpus.empty()) flat.cpus = CpuSet({0});
  flat.cores = flat.cpus.size();
  flat.nodes = {{.id = 0,
                 .cpus = flat.cpus,
                 .one_cpu_per_core = flat.cpus,
                 .memory_bytes = total_memory_bytes()}};
  return flat;
}

Topology read_topology() {
  Topology flat = flat_topology();
  const TopologyHandle handle = load();
  if (!handle) return flat;
  hwloc_topology_t topology = handle.get();
  Topology found;
  hwloc_obj_t object = nullptr;
  while ((object = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, object)) != nullptr) {
    found.nodes.push_back(read_node(object));
  }
  std::ranges::sort(found.nodes, {}, &NumaNode::id);
  for (NumaNode& node : found.nodes) {
    node.cpus = node.cpus.intersect(flat.cpus);
    // A memory-only node (HBM, CXL) shows the CPUs it is near to; they belong to an earlier node.
    if (!found.cpus.intersect(node.cpus).empty()) node.cpus = {};
    found.cpus = found.cpus.unite(node.cpus);
  }
  // Emulators and some containers show CPUs that are not the process's: trust the mask then.
  if (found.nodes.empty() || found.cpus != flat.cpus) {
    found.nodes = flat.nodes;
    found.cpus = flat.cpus;
  }
  for (NumaNode& node : found.nodes) {
    node.one_cpu_per_core = first_cpus_of_cores(topology, node.cpus);
    if (node.one_cpu_per_core.empty()) node.one_cpu_per_core = node.cpus;  // no cores shown
  }
  found.packages = std::max(1, hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PACKAGE));
  found.cores = 0;
  for (const NumaNode& node : found.nodes) found.cores += node.one_cpu_per_core.size();
  found.l1d_bytes = cache_bytes(topology, HWLOC_OBJ_L1CACHE);
  found.l2_bytes = cache_bytes(topology, HWLOC_OBJ_L2CACHE);
  found.l3_bytes = cache_bytes(topology, HWLOC_OBJ_L3CACHE);
  found.l3_caches = std::max(0, hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_L3CACHE));
  return found;
}

}  // namespace tandem::system
