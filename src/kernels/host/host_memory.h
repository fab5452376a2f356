#pragma once
// The memory half of a host device: allocation, streams, copies, events. The functions follow the
// contract of tensor::MemoryApi over HostDevice, HostStream and HostEvent.

#include "kernels/device_api.h"

namespace tandem::kernels {

namespace host_memory {

using tensor::AllocationRequest;
using tensor::Event;
using tensor::MemoryKind;

Status allocate(Device* device, const AllocationRequest* request, void** out);
void free_memory(Device* device, void* data, size_t bytes, MemoryKind kind);
Status create_stream(Device* device, Stream** out);
void destroy_stream(Device* device, Stream* stream);
Status synchronize(Device* device, Stream* stream);
Status copy(Device* device, Stream* stream, void* destination, const void* source, size_t bytes);
Status fill_zero(Device* device, Stream* stream, void* destination, size_t bytes);
Status create_event(Device* device, Event** out);
void destroy_event(Device* device, Event* event);
Status record(Device* device, Stream* stream, Event* event);
Status wait(Device* device, Event* event);
bool query(Device* device, Event* event);
Status launch_host(Device* device, Stream* stream, void (*function)(void*), void* argument);

}  // namespace host_memory

inline constexpr tensor::MemoryApi kHostMemoryApi = {
    .allocate = &host_memory::allocate,
    .free = &host_memory::free_memory,
    .create_stream = &host_memory::create_stream,
    .destroy_stream = &host_memory::destroy_stream,
    .synchronize = &host_memory::synchronize,
    .copy = &host_memory::copy,
    .fill_zero = &host_memory::fill_zero,
    .create_event = &host_memory::create_event,
    .destroy_event = &host_memory::destroy_event,
    .record = &host_memory::record,
    .wait = &host_memory::wait,
    .query = &host_memory::query,
    .launch_host = &host_memory::launch_host,
};

}  // namespace tandem::kernels
