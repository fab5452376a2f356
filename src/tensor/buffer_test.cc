#include "tensor/buffer.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "tensor/tensor_view.h"

namespace tandem::tensor {
namespace {

// A device of malloc and a counter.
struct Counter {
  int live = 0;
};

MemoryApi counting_api() {
  MemoryApi api{};
  api.allocate = [](Device* device, const AllocationRequest* request, void** out) {
    *out = std::malloc(request->bytes);
    ++reinterpret_cast<Counter*>(device)->live;
    return Status{};
  };
  api.free = [](Device* device, void* data, size_t, MemoryKind) {
    std::free(data);
    --reinterpret_cast<Counter*>(device)->live;
  };
  return api;
}

TEST(Buffer, FreesOnceAfterMoves) {
  Counter counter;
  auto* device = reinterpret_cast<Device*>(&counter);
  const MemoryApi api = counting_api();
  {
    Buffer a = Buffer::allocate(device, api, {.bytes = 64}).value();
    Buffer b = std::move(a);
    EXPECT_EQ(a.data(), nullptr);
    EXPECT_EQ(b.bytes(), 64u);
    b = Buffer::allocate(device, api, {.bytes = 32}).value();
    EXPECT_EQ(counter.live, 1);
  }
  EXPECT_EQ(counter.live, 0);
  EXPECT_FALSE(Buffer::allocate(device, api, {.bytes = 0}));
}

TEST(Buffer, StatusCarriesCodeAndText) {
  const Status status = to_status(Error{ErrorCode::kOutOfMemory, std::string(400, 'x')});
  EXPECT_EQ(to_expected(status).error().code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(to_expected(status).error().message.size(), 251u);
  EXPECT_TRUE(to_expected(Status{}));
}

TEST(RowsView, SlicesColumns) {
  float data[6] = {0, 1, 2, 3, 4, 5};
  const RowsView rows{data, DType::kF32, 3, 3};
  EXPECT_EQ(*rows.slice(1, 2).row<float>(1), 4.0f);
}

}  // namespace
}  // namespace tandem::tensor
