#include "system/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "system/affinity.h"

namespace tandem::system {
namespace {

void expect_consistent(const Topology& topology) {
  ASSERT_FALSE(topology.nodes.empty());
  EXPECT_EQ(topology.cpus, affinity_cpus());
  CpuSet all;
  int total = 0;
  for (const NumaNode& node : topology.nodes) {
    all = all.unite(node.cpus);
    total += node.cpus.size();
    EXPECT_GE(node.memory_bytes, 0);
    EXPECT_TRUE(node.cpus.contains(node.one_cpu_per_core));
    EXPECT_EQ(node.cpus.empty(), node.one_cpu_per_core.empty());
    for (const int cpu : node.cpus.cpus()) EXPECT_EQ(topology.node_of_cpu(cpu), node.id);
  }
  EXPECT_EQ(all, topology.cpus);
  EXPECT_EQ(total, topology.cpus.size());  // no CPU in two nodes
  EXPECT_EQ(topology.node_of_cpu(CpuSet::kMaxCpus - 1), -1);
  EXPECT_GE(topology.packages, 1);
  EXPECT_GE(topology.cores, 1);
  EXPECT_LE(topology.cores, topology.cpus.size());
}

TEST(Topology, DescribesThisMachine) {
  const CpuSet before = thread_affinity(pthread_self());
  const Topology topology = read_topology();
  expect_consistent(topology);
  EXPECT_EQ(thread_affinity(pthread_self()), before);
  EXPECT_THAT(topology.to_string(), testing::HasSubstr("package"));
}

TEST(Topology, FallsBackToOneNode) {
  const Topology flat = flat_topology();
  expect_consistent(flat);
  EXPECT_EQ(flat.nodes.size(), 1u);
  EXPECT_GT(flat.nodes[0].memory_bytes, 0);
}

TEST(Topology, FollowsTheMask) {
  const CpuSet before = affinity_cpus();
  if (before.size() < 2) GTEST_SKIP() << "one CPU";
  const CpuSet one({before.cpus().back()});
  ASSERT_TRUE(bind_thread(pthread_self(), one));  // the test runs on the main thread
  const Topology topology = read_topology();
  ASSERT_TRUE(bind_thread(pthread_self(), before));
  EXPECT_EQ(topology.cpus, one);
  EXPECT_EQ(topology.cores, 1);
}

}  // namespace
}  // namespace tandem::system
