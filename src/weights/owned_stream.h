#pragma once
// A stream and an event of a device, destroyed with their owner.

#include <utility>

#include "base/error.h"
#include "kernels/device.h"
#include "tensor/buffer.h"

namespace tandem::weights {

// Moves only. The device must outlive it. Used by one thread at a time.
class OwnedStream {
 public:
  OwnedStream() = default;
  static Expected<OwnedStream> create(kernels::DeviceRef device) {
    OwnedStream result;
    result.device_ = device;
    TANDEM_TRY(
        tensor::to_expected(device.api->memory.create_stream(device.device, &result.stream_)));
    return result;
  }
  OwnedStream(OwnedStream&& other) noexcept { *this = std::move(other); }
  OwnedStream& operator=(OwnedStream&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(stream_, other.stream_);
    return *this;
  }
  ~OwnedStream() {
    if (stream_) device_.api->memory.destroy_stream(device_.device, stream_);
  }
  tensor::Stream* get() const { return stream_; }

 private:
  kernels::DeviceRef device_;
  tensor::Stream* stream_ = nullptr;
};

// Moves only. The device must outlive it.
class OwnedEvent {
 public:
  OwnedEvent() = default;
  static Expected<OwnedEvent> create(kernels::DeviceRef device) {
    OwnedEvent result;
    result.device_ = device;
    TANDEM_TRY(tensor::to_expected(device.api->memory.create_event(device.device, &result.event_)));
    return result;
  }
  OwnedEvent(OwnedEvent&& other) noexcept { *this = std::move(other); }
  OwnedEvent& operator=(OwnedEvent&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(event_, other.event_);
    return *this;
  }
  ~OwnedEvent() {
    if (event_) device_.api->memory.destroy_event(device_.device, event_);
  }
  tensor::Event* get() const { return event_; }

 private:
  kernels::DeviceRef device_;
  tensor::Event* event_ = nullptr;
};

}  // namespace tandem::weights
