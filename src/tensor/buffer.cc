#include "tensor/buffer.h"

#include <algorithm>

namespace tandem::tensor {

Expected<void> to_expected(const Status& status) {
  if (ok(status)) return {};
  return fail(Error{static_cast<ErrorCode>(status.code - 1), status.message});
}

Status to_status(const Error& error) {
  Status status;
  status.code = static_cast<int32_t>(error.code) + 1;
  const size_t length = std::min(error.message.size(), sizeof(status.message) - 1);
  std::copy_n(error.message.data(), length, status.message);
  return status;
}

Expected<Buffer> Buffer::allocate(Device* device,
                                  const MemoryApi& api,
                                  const AllocationRequest& request) {
  if (request.bytes == 0)
    return fail(ErrorCode::kInvalidArgument, "a buffer of 0 bytes was asked for");
  Buffer buffer;
  TANDEM_TRY(to_expected(api.allocate(device, &request, &buffer.data_)));
  buffer.device_ = device;
  buffer.api_ = &api;
  buffer.bytes_ = request.bytes;
  buffer.kind_ = request.kind;
  return buffer;
}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    release();
    device_ = std::exchange(other.device_, nullptr);
    api_ = std::exchange(other.api_, nullptr);
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
    kind_ = other.kind_;
  }
  return *this;
}

void Buffer::release() {
  if (data_) api_->free(device_, data_, bytes_, kind_);
  data_ = nullptr;
}

}  // namespace tandem::tensor
