#pragma once
// One of the steps in flight: where its Batch is staged on the way to the device and its results on
// the way back. Used by StepRunner; one thread.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/device.h"
#include "model/batch.h"
#include "model/decoder.h"
#include "tensor/buffer.h"
#include "weights/owned_stream.h"

namespace tandem::model {

class StepSlot {
 public:
  // `links`: how many expert devices are to be waited for with a step.
  static Expected<StepSlot> create(kernels::DeviceRef device,
                                   std::span<const std::unique_ptr<ExpertLink>> links);

  // Lays `batch` out in pinned memory and submits one copy to the device. Grows its buffers when
  // they are too small; `stream` is synchronized before anything is freed.
  Expected<void> upload(tensor::Stream* stream, const Batch& batch);

  // The uploaded batch, by its device addresses. `previous`: the step before, or null.
  const DeviceBatch& device_batch(const StepSlot* previous);
  const int32_t* logits_rows() const { return device_ptr<int32_t>(layout_.logits_rows); }

  // Arguments for sampling rows [first, first + count).
  kernels::SampleArgs sample_args(int32_t first, int32_t count, const tensor::RowsView& logits);

  // Submits the copy of the results to the host.
  Expected<void> download(tensor::Stream* stream);
  // Marks the end of the step in all streams.
  Expected<void> record(tensor::Stream* stream, std::span<const std::unique_ptr<ExpertLink>> links);
  // Blocks until then; the first failure.
  Expected<void> wait() const;
  void read(StepResult& result) const;

  int32_t rows() const { return rows_; }
  bool in_flight = false;
  bool lost = false;  // a failure of an earlier step took this one along

 private:
  // Byte offsets in the staged input.
  struct Layout {
    size_t token_ids = 0;
    size_t positions = 0;
    size_t segments = 0;
    size_t logits_rows = 0;
    size_t sample_rows = 0;
    size_t bias_ids = 0;
    size_t bias_values = 0;
    size_t history = 0;
    size_t masks = 0;
    struct Group {
      size_t slots = 0;
      size_t block_table = 0;
      int32_t stride = 0;
    };
    std::vector<Group> groups;
    size_t bytes = 0;
  };
  // Byte offsets in the results.
  struct ResultLayout {
    size_t results = 0;
    size_t ids = 0;
    size_t top_ids = 0;
    size_t top_logprobs = 0;
    size_t bytes = 0;
  };

  void lay_out(const Batch& batch);
  void fill(const Batch& batch);
  Expected<void> grow(tensor::Stream* stream);

  template <class T>
  const T* device_ptr(size_t offset) const {
    return reinterpret_cast<const T*>(device_in_.as<std::byte>() + offset);
  }
  template <class T>
  T* host_ptr(size_t offset) const {
    return reinterpret_cast<T*>(host_in_.as<std::byte>() + offset);
  }
  template <class T>
  T* result_ptr(size_t offset) const {
    return reinterpret_cast<T*>(device_out_.as<std::byte>() + offset);
  }

  kernels::DeviceRef device_;
  tensor::Buffer host_in_;  // pinned
  tensor::Buffer device_in_;
  tensor::Buffer device_out_;
  tensor::Buffer host_out_;  // pinned
  Layout layout_;
  DeviceBatch batch_;  // kept: its capacity
  ResultLayout result_layout_;
  int32_t tokens_ = 0;
  int32_t rows_ = 0;
  int32_t segments_ = 0;
  int32_t mask_words_ = 0;
  bool has_masks_ = false;
  int32_t max_top_logprobs_ = 0;

  struct EventOf {
    kernels::DeviceRef device;
    weights::OwnedEvent event;
  };
  std::vector<EventOf> events_;  // the main stream's first, then one a link
};

}  // namespace tandem::model
