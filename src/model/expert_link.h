#pragma once
// The way to experts that live on another device than the layer's router: activations, expert ids
// and weights go there through host memory, the slot-ordered fp32 sum comes back. Each device works
// on its own stream; host functions in both streams wait for each other, so neither the submitting
// thread nor the other device's other work is held up.

#include <cstdint>
#include <memory>

#include "kernels/device.h"
#include "model/workspace.h"
#include "system/gate.h"
#include "weights/owned_stream.h"

namespace tandem::model {

// Raised in one stream, awaited in another, as often as raised.
class HostSignal {
 public:
  // For MemoryApi::launch_host; `self` is the HostSignal.
  static void raise(void* self);
  static void await(void* self);

  // Both streams are idle: forget what was raised and never awaited.
  void reset() { taken_ = gate_.value(); }

 private:
  system::Gate gate_;
  uint32_t taken_ = 0;  // only the awaiting stream
};

struct ExpertLinkShape {
  int32_t max_tokens = 0;
  int64_t hidden = 0;
  int32_t max_top_k = 0;
  tensor::DType activation = tensor::DType::kF32;
};

// Where the router's device keeps what goes there and what comes back.
struct ExpertCall {
  int32_t tokens = 0;
  int32_t top_k = 0;
  tensor::RowsView x;  // [tokens, hidden] A, stride = hidden
  const int32_t* expert_ids = nullptr;
  const float* weights = nullptr;
  const kernels::PackedExperts* experts = nullptr;
};

// One thread submits. The devices must outlive it.
class ExpertLink {
 public:
  static Expected<std::unique_ptr<ExpertLink>> create(kernels::DeviceRef home,
                                                      kernels::DeviceRef away,
                                                      const ExpertLinkShape& shape);
  ExpertLink(const ExpertLink&) = delete;
  ExpertLink& operator=(const ExpertLink&) = delete;

  // Submits the way there and the experts' work. What is submitted to `home_stream` between
  // send() and receive() runs beside them.
  Expected<void> send(tensor::Stream* home_stream, const ExpertCall& call);
  // Submits the way back into `out` [tokens, hidden] fp32, stride = hidden.
  Expected<void> receive(tensor::Stream* home_stream, int32_t tokens, const tensor::RowsView& out);

  // Marks the end of a step in the experts' stream; wait_step() returns its failure.
  Expected<void> record_step(tensor::Event* event);
  kernels::DeviceRef away() const { return away_; }

  // After a failed submission, when the home stream is idle: the experts' stream runs dry too, and
  // the signals start anew.
  void recover();

 private:
  ExpertLink() = default;
  Expected<void> submit_away(const ExpertCall& call);

  kernels::DeviceRef home_;
  kernels::DeviceRef away_;
  ExpertLinkShape shape_;
  Workspace host_;  // pinned
  Workspace device_;
  struct Arrays {
    void* x = nullptr;
    void* expert_ids = nullptr;
    void* weights = nullptr;
    void* out = nullptr;
  };
  Arrays on_host_;
  Arrays on_away_;
  HostSignal arrived_;   // raised at home
  HostSignal finished_;  // raised away
  // Last: its destructor waits for work that uses what stands above.
  weights::OwnedStream stream_;
};

}  // namespace tandem::model
