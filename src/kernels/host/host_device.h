#pragma once
// What the devices made of host threads (cpu, reference) share. Plain data; a device derives from
// it and adds its own. The opaque tensor::Device of the table is a HostDevice.

#include <mutex>
#include <unordered_map>

#include "kernels/device_api.h"
#include "system/pages.h"
#include "system/thread_team.h"

namespace tandem::kernels {

struct HostDevice {
  DeviceInfo info;
  // Null: operators use the stream's thread alone. Owned by the deriving device.
  system::ThreadTeam* team = nullptr;
  // The team runs one operator at a time, whatever the number of streams.
  std::mutex team_mutex;

  // Large allocations come straight from the system in these pages, the others from the heap.
  system::PageSize page_size = system::PageSize::kTransparentHuge;
  std::mutex pages_mutex;
  std::unordered_map<void*, system::PageAllocation> pages;  // by address

  HostDevice() = default;
  HostDevice(const HostDevice&) = delete;
  HostDevice& operator=(const HostDevice&) = delete;
  virtual ~HostDevice() = default;
};

// The table's opaque handles are these objects and nothing else.
inline HostDevice& host_device(Device* device) { return *reinterpret_cast<HostDevice*>(device); }
inline Device* to_handle(HostDevice* device) { return reinterpret_cast<Device*>(device); }

}  // namespace tandem::kernels
