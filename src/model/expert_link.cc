#include "model/expert_link.h"

#include <chrono>
#include <cstring>

namespace tandem::model {
namespace {

// A layer's experts take from 50 us on; a sleeping thread wakes in about as long. Yielding costs
// others nothing.
constexpr system::SpinBudget kPatience{.spin = std::chrono::microseconds(5),
                                       .yield = std::chrono::microseconds(100)};

}  // namespace

void HostSignal::raise(void* self) { static_cast<HostSignal*>(self)->gate_.advance(); }

void HostSignal::await(void* self) {
  auto* signal = static_cast<HostSignal*>(self);
  signal->gate_.wait_past(signal->taken_, kPatience);
  ++signal->taken_;
}

Expected<std::unique_ptr<ExpertLink>> ExpertLink::create(kernels::DeviceRef home,
                                                         kernels::DeviceRef away,
                                                         const ExpertLinkShape& shape) {
  std::unique_ptr<ExpertLink> link(new ExpertLink());
  link->home_ = home;
  link->away_ = away;
  link->shape_ = shape;
  const auto prepare = [&](Workspace& space, kernels::DeviceRef device, tensor::MemoryKind kind) {
    space.reserve(shape.max_tokens, shape.hidden, shape.activation);
    space.reserve(shape.max_tokens, shape.max_top_k, tensor::DType::kI32);
    space.reserve(shape.max_tokens, shape.max_top_k, tensor::DType::kF32);
    space.reserve(shape.max_tokens, shape.hidden, tensor::DType::kF32);
    return space.allocate(device, kind);
  };
  TANDEM_TRY(prepare(link->host_, home, tensor::MemoryKind::kPinned));
  TANDEM_TRY(prepare(link->device_, away, tensor::MemoryKind::kDevice));
  const auto take = [](Workspace& space) {
    Arrays arrays;
    arrays.x = space.take();
    arrays.expert_ids = space.take();
    arrays.weights = space.take();
    arrays.out = space.take();
    return arrays;
  };
  link->on_host_ = take(link->host_);
  // If a failed step skips the copies, the experts see ids of an earlier one, or 0: never garbage.
  std::memset(link->on_host_.expert_ids,
              0,
              static_cast<size_t>(shape.max_tokens) * static_cast<size_t>(shape.max_top_k) *
                  sizeof(int32_t));
  link->on_away_ = take(link->device_);
  TANDEM_ASSIGN(link->stream_, weights::OwnedStream::create(away));
  return link;
}

Expected<void> ExpertLink::send(tensor::Stream* home_stream, const ExpertCall& call) {
  const tensor::MemoryApi& memory = home_.api->memory;
  const size_t rows = static_cast<size_t>(call.tokens);
  const size_t choices = rows * static_cast<size_t>(call.top_k) * sizeof(int32_t);
  const size_t x_bytes =
      rows * static_cast<size_t>(shape_.hidden) * tensor::size_of(shape_.activation);
  // The host arrays are free: home has awaited the call before.
  const auto copy = [&](void* to, const void* from, size_t bytes) {
    return tensor::to_expected(memory.copy(home_.device, home_stream, to, from, bytes));
  };
  TANDEM_TRY(copy(on_host_.x, call.x.data, x_bytes));
  TANDEM_TRY(copy(on_host_.expert_ids, call.expert_ids, choices));
  TANDEM_TRY(copy(on_host_.weights, call.weights, choices));
  TANDEM_TRY(tensor::to_expected(
      memory.launch_host(home_.device, home_stream, &HostSignal::raise, &arrived_)));
  return submit_away(call);
}

Expected<void> ExpertLink::submit_away(const ExpertCall& call) {
  const tensor::MemoryApi& memory = away_.api->memory;
  const size_t rows = static_cast<size_t>(call.tokens);
  const size_t choices = rows * static_cast<size_t>(call.top_k) * sizeof(int32_t);
  const size_t x_bytes =
      rows * static_cast<size_t>(shape_.hidden) * tensor::size_of(shape_.activation);
  const auto copy = [&](void* to, const void* from, size_t bytes) {
    return tensor::to_expected(memory.copy(away_.device, stream_.get(), to, from, bytes));
  };
  TANDEM_TRY(tensor::to_expected(
      memory.launch_host(away_.device, stream_.get(), &HostSignal::await, &arrived_)));
  TANDEM_TRY(copy(on_away_.x, on_host_.x, x_bytes));
  TANDEM_TRY(copy(on_away_.expert_ids, on_host_.expert_ids, choices));
  TANDEM_TRY(copy(on_away_.weights, on_host_.weights, choices));
  kernels::ExpertsArgs args;
  args.tokens = call.tokens;
  args.top_k = call.top_k;
  args.x = {on_away_.x, shape_.activation, shape_.hidden, shape_.hidden};
  args.expert_ids = static_cast<const int32_t*>(on_away_.expert_ids);
  args.weights = static_cast<const float*>(on_away_.weights);
  args.experts = call.experts;
  args.out = {on_away_.out, tensor::DType::kF32, shape_.hidden, shape_.hidden};
  TANDEM_TRY(tensor::to_expected(away_.api->experts(away_.device, stream_.get(), &args)));
  TANDEM_TRY(
      copy(on_host_.out, on_away_.out, rows * static_cast<size_t>(shape_.hidden) * sizeof(float)));
  return tensor::to_expected(
      memory.launch_host(away_.device, stream_.get(), &HostSignal::raise, &finished_));
}

Expected<void> ExpertLink::receive(tensor::Stream* home_stream,
                                   int32_t tokens,
                                   const tensor::RowsView& out) {
  const tensor::MemoryApi& memory = home_.api->memory;
  TANDEM_TRY(tensor::to_expected(
      memory.launch_host(home_.device, home_stream, &HostSignal::await, &finished_)));
  return tensor::to_expected(memory.copy(
      home_.device,
      home_stream,
      out.data,
      on_host_.out,
      static_cast<size_t>(tokens) * static_cast<size_t>(shape_.hidden) * sizeof(float)));
}

Expected<void> ExpertLink::record_step(tensor::Event* event) {
  return tensor::to_expected(away_.api->memory.record(away_.device, stream_.get(), event));
}

void ExpertLink::recover() {
  // Its failure belongs to the step that has failed already.
  (void)away_.api->memory.synchronize(away_.device, stream_.get());
  arrived_.reset();
  finished_.reset();
}

}  // namespace tandem::model
