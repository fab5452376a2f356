#include "kernels/host/host_memory.h"

#include <cstring>
#include <memory>
#include <new>

#include "kernels/host/host_stream.h"

namespace tandem::kernels::host_memory {
namespace {

constexpr size_t kAlignment = 64;

Status refuse(const char* what) { return make_status(ErrorCode::kInvalidArgument, "{}", what); }

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
  *out = ::operator new(request->bytes, std::align_val_t{kAlignment}, std::nothrow);
  if (*out != nullptr) return {};
  return make_status(ErrorCode::kOutOfMemory,
                     "{}: cannot allocate {} bytes",
                     host_device(device).info.name,
                     request->bytes);
}

void free_memory(Device*, void* data, size_t, MemoryKind) {
  ::operator delete(data, std::align_val_t{kAlignment});
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
