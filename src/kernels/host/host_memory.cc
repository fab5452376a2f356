#include "kernels/host/host_memory.h"

#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "base/check.h"
#include "kernels/host/host_stream.h"
#include "tensor/buffer.h"

namespace tandem::kernels::host_memory {
namespace {

constexpr size_t kAlignment = 64;
// From one huge page on, memory comes from the system and may be placed on a NUMA node.
constexpr size_t kLargeBytes = size_t{2} << 20;

Status refuse(const char* what) { return make_status(ErrorCode::kInvalidArgument, "{}", what); }

Status out_of_memory(const HostDevice& device, size_t bytes) {
  return make_status(
      ErrorCode::kOutOfMemory, "{}: cannot allocate {} bytes", device.info.name, bytes);
}

Status allocate_large(HostDevice& device, const AllocationRequest& request, void** out) {
  try {
    auto pages = system::allocate_pages(request.bytes, device.page_size, request.numa_node);
    if (!pages) return tensor::to_status(pages.error());
    void* data = pages->data();
    std::lock_guard lock(device.pages_mutex);
    device.pages.emplace(data, std::move(*pages));
    *out = data;
    return {};
  } catch (const std::bad_alloc&) {
    return out_of_memory(device, request.bytes);
  }
}

struct CopyArgs {
  void* destination;
  const void* source;
  size_t bytes;
};

}  // namespace

Status allocate(Device* device, const AllocationRequest* request, void** out) {
  if (out == nullptr) return refuse("allocate: no place for the result");
  *out = nullptr;
  if (device == nullptr || request == nullptr) return refuse("allocate: null argument");
  if (request->bytes == 0) return refuse("allocate: 0 bytes");
  if (request->bytes >= kLargeBytes) return allocate_large(host_device(device), *request, out);
  *out = ::operator new(request->bytes, std::align_val_t{kAlignment}, std::nothrow);
  return *out != nullptr ? Status{} : out_of_memory(host_device(device), request->bytes);
}

void free_memory(Device* device, void* data, size_t bytes, MemoryKind) {
  if (data == nullptr) return;
  if (bytes < kLargeBytes) {
    ::operator delete(data, std::align_val_t{kAlignment});
    return;
  }
  HostDevice& host = host_device(device);
  system::PageAllocation pages;
  std::lock_guard lock(host.pages_mutex);
  const auto found = host.pages.find(data);
  TANDEM_CHECK(found != host.pages.end(), "not allocated here, or with another size");
  pages = std::move(found->second);
  host.pages.erase(found);
}

Status create_stream(Device* device, Stream** out) {
  if (device == nullptr || out == nullptr) return refuse("create_stream: null argument");
  *out = nullptr;
  std::unique_ptr<HostStream> stream;
  const Status status = HostStream::create(host_device(device), &stream);
  if (tensor::ok(status)) *out = reinterpret_cast<Stream*>(stream.release());
  return status;
}

void destroy_stream(Device*, Stream* stream) {
  if (stream != nullptr) delete &host_stream(stream);
}

Status synchronize(Device*, Stream* stream) {
  if (stream == nullptr) return refuse("synchronize: null stream");
  return host_stream(stream).synchronize();
}

Status copy(Device*, Stream* stream, void* destination, const void* source, size_t bytes) {
  if (stream == nullptr) return refuse("copy: null stream");
  if (bytes == 0) return {};
  if (destination == nullptr || source == nullptr) return refuse("copy: null pointer");
  const CopyArgs args{destination, source, bytes};
  host_stream(stream).submit_transfer(
      [](RunContext&, const void* arguments) {
        const auto& a = *static_cast<const CopyArgs*>(arguments);
        std::memcpy(a.destination, a.source, a.bytes);
      },
      &args,
      sizeof(args));
  return {};
}

Status fill_zero(Device*, Stream* stream, void* destination, size_t bytes) {
  if (stream == nullptr) return refuse("fill_zero: null stream");
  if (bytes == 0) return {};
  if (destination == nullptr) return refuse("fill_zero: null pointer");
  const CopyArgs args{destination, nullptr, bytes};
  host_stream(stream).submit_transfer(
      [](RunContext&, const void* arguments) {
        const auto& a = *static_cast<const CopyArgs*>(arguments);
        std::memset(a.destination, 0, a.bytes);
      },
      &args,
      sizeof(args));
  return {};
}

Status create_event(Device*, Event** out) {
  if (out == nullptr) return refuse("create_event: null argument");
  *out = reinterpret_cast<Event*>(new (std::nothrow) HostEvent);
  if (*out != nullptr) return {};
  return make_status(ErrorCode::kOutOfMemory, "no memory for an event");
}

void destroy_event(Device*, Event* event) {
  if (event != nullptr) delete &host_event(event);
}

Status record(Device*, Stream* stream, Event* event) {
  if (stream == nullptr || event == nullptr) return refuse("record: null argument");
  host_stream(stream).submit_record(host_event(event));
  return {};
}

Status wait(Device*, Event* event) {
  if (event == nullptr) return refuse("wait: null event");
  return host_event(event).wait();
}

bool query(Device*, Event* event) { return event == nullptr || host_event(event).query(); }

Status launch_host(Device*, Stream* stream, void (*function)(void*), void* argument) {
  if (stream == nullptr || function == nullptr) return refuse("launch_host: null argument");
  host_stream(stream).submit_host(function, argument);
  return {};
}

}  // namespace tandem::kernels::host_memory
