#include "model/step_slot.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace tandem::model {
namespace {

using tensor::to_expected;

constexpr size_t kArrayAlignment = 64;
constexpr size_t kSmallestBuffer = 64 << 10;

// Places arrays one after the other.
class Packer {
 public:
  template <class T>
  size_t place(const std::vector<T>& array) {
    return place_bytes(array.size() * sizeof(T));
  }
  size_t place_bytes(size_t bytes) {
    const size_t at = used_;
    used_ += (bytes + kArrayAlignment - 1) / kArrayAlignment * kArrayAlignment;
    return at;
  }
  size_t used() const { return used_; }

 private:
  size_t used_ = 0;
};

template <class T>
void copy_array(T* to, const std::vector<T>& from) {
  if (!from.empty()) std::memcpy(to, from.data(), from.size() * sizeof(T));
}

}  // namespace

Expected<StepSlot> StepSlot::create(kernels::DeviceRef device,
                                    std::span<const std::unique_ptr<ExpertLink>> links) {
  StepSlot slot;
  slot.device_ = device;
  std::vector<kernels::DeviceRef> devices = {device};
  for (const auto& link : links) devices.push_back(link->away());
  for (const kernels::DeviceRef& ref : devices) {
    TANDEM_ASSIGN(weights::OwnedEvent event, weights::OwnedEvent::create(ref));
    slot.events_.push_back({ref, std::move(event)});
  }
  return slot;
}

void StepSlot::lay_out(const Batch& batch) {
  Packer packer;
  layout_.token_ids = packer.place(batch.token_ids);
  layout_.positions = packer.place(batch.positions);
  layout_.segments = packer.place(batch.segments);
  layout_.logits_rows = packer.place(batch.logits_rows);
  layout_.sample_rows = packer.place(batch.sample_rows);
  layout_.bias_ids = packer.place(batch.bias_ids);
  layout_.bias_values = packer.place(batch.bias_values);
  layout_.history = packer.place(batch.history);
  layout_.masks = packer.place(batch.masks);
  layout_.groups.resize(batch.groups.size());
  for (size_t i = 0; i < batch.groups.size(); ++i) {
    layout_.groups[i] = {packer.place(batch.groups[i].slots),
                         packer.place(batch.groups[i].block_table),
                         batch.groups[i].block_table_stride};
  }
  layout_.bytes = packer.used();

  tokens_ = batch.tokens();
  rows_ = batch.rows();
  segments_ = static_cast<int32_t>(batch.segments.size());
  mask_words_ = batch.mask_words;
  has_masks_ = !batch.masks.empty();
  max_top_logprobs_ = batch.max_top_logprobs;
  const auto rows = static_cast<size_t>(rows_);
  const size_t tops = rows * static_cast<size_t>(max_top_logprobs_);
  Packer results;
  result_layout_.results = results.place_bytes(rows * sizeof(kernels::SampleResult));
  result_layout_.ids = results.place_bytes(rows * sizeof(int32_t));
  result_layout_.top_ids = results.place_bytes(tops * sizeof(int32_t));
  result_layout_.top_logprobs = results.place_bytes(tops * sizeof(float));
  result_layout_.bytes = results.used();
}

void StepSlot::fill(const Batch& batch) {
  copy_array(host_ptr<int32_t>(layout_.token_ids), batch.token_ids);
  copy_array(host_ptr<int32_t>(layout_.positions), batch.positions);
  copy_array(host_ptr<kernels::Segment>(layout_.segments), batch.segments);
  copy_array(host_ptr<int32_t>(layout_.logits_rows), batch.logits_rows);
  copy_array(host_ptr<kernels::SampleRow>(layout_.sample_rows), batch.sample_rows);
  copy_array(host_ptr<int32_t>(layout_.bias_ids), batch.bias_ids);
  copy_array(host_ptr<float>(layout_.bias_values), batch.bias_values);
  copy_array(host_ptr<kernels::HistoryEntry>(layout_.history), batch.history);
  copy_array(host_ptr<uint32_t>(layout_.masks), batch.masks);
  for (size_t i = 0; i < batch.groups.size(); ++i) {
    copy_array(host_ptr<int64_t>(layout_.groups[i].slots), batch.groups[i].slots);
    copy_array(host_ptr<int32_t>(layout_.groups[i].block_table), batch.groups[i].block_table);
  }
}

// Twice what is needed, so that growing histories allocate rarely.
Expected<void> StepSlot::grow(tensor::Stream* stream) {
  const bool input = host_in_.bytes() < layout_.bytes;
  const bool output = host_out_.bytes() < std::max<size_t>(result_layout_.bytes, 1);
  if (!input && !output) return {};
  // The step in flight may still read the ids of this slot's last one.
  TANDEM_TRY(to_expected(device_.api->memory.synchronize(device_.device, stream)));
  const auto allocate = [&](tensor::Buffer& buffer, size_t bytes, tensor::MemoryKind kind) {
    auto result =
        tensor::Buffer::allocate(device_.device,
                                 device_.api->memory,
                                 {.bytes = std::max(kSmallestBuffer, 2 * bytes), .kind = kind});
    if (result) buffer = std::move(*result);
    return result ? Expected<void>{} : Expected<void>(fail(std::move(result).error()));
  };
  if (input) {
    TANDEM_TRY(allocate(host_in_, layout_.bytes, tensor::MemoryKind::kPinned));
    TANDEM_TRY(allocate(device_in_, layout_.bytes, tensor::MemoryKind::kDevice));
  }
  if (output) {
    TANDEM_TRY(allocate(device_out_, result_layout_.bytes, tensor::MemoryKind::kDevice));
    TANDEM_TRY(allocate(host_out_, result_layout_.bytes, tensor::MemoryKind::kPinned));
  }
  return {};
}

Expected<void> StepSlot::upload(tensor::Stream* stream, const Batch& batch) {
  lay_out(batch);
  TANDEM_TRY(grow(stream));
  fill(batch);
  return to_expected(device_.api->memory.copy(
      device_.device, stream, device_in_.data(), host_in_.data(), layout_.bytes));
}

const DeviceBatch& StepSlot::device_batch(const StepSlot* previous) {
  DeviceBatch& batch = batch_;
  batch.groups.clear();
  batch.previous_ids = nullptr;
  batch.tokens = tokens_;
  batch.ids = device_ptr<int32_t>(layout_.token_ids);
  if (previous && previous->rows_ > 0) {
    batch.previous_ids = previous->result_ptr<int32_t>(previous->result_layout_.ids);
  }
  for (const Layout::Group& group : layout_.groups) {
    kernels::RaggedBatch ragged;
    ragged.tokens = tokens_;
    ragged.segment_count = segments_;
    ragged.segments = device_ptr<kernels::Segment>(layout_.segments);
    ragged.host_segments = host_ptr<kernels::Segment>(layout_.segments);
    ragged.positions = device_ptr<int32_t>(layout_.positions);
    ragged.slots = device_ptr<int64_t>(group.slots);
    ragged.block_table = device_ptr<int32_t>(group.block_table);
    ragged.block_table_stride = group.stride;
    batch.groups.push_back(ragged);
  }
  return batch;
}

kernels::SampleArgs StepSlot::sample_args(int32_t first,
                                          int32_t count,
                                          const tensor::RowsView& logits) {
  kernels::SampleArgs args;
  args.rows = count;
  args.logits = logits;
  args.row = device_ptr<kernels::SampleRow>(layout_.sample_rows) + first;
  args.host_row = host_ptr<kernels::SampleRow>(layout_.sample_rows) + first;
  args.bias_ids = device_ptr<int32_t>(layout_.bias_ids);
  args.bias_values = device_ptr<float>(layout_.bias_values);
  args.history = device_ptr<kernels::HistoryEntry>(layout_.history);
  if (has_masks_) args.masks = device_ptr<uint32_t>(layout_.masks);
  args.mask_words = mask_words_;
  args.max_top_logprobs = max_top_logprobs_;
  args.result = result_ptr<kernels::SampleResult>(result_layout_.results) + first;
  args.ids = result_ptr<int32_t>(result_layout_.ids) + first;
  const int64_t top = int64_t{first} * max_top_logprobs_;
  args.top_ids = result_ptr<int32_t>(result_layout_.top_ids) + top;
  args.top_logprobs = result_ptr<float>(result_layout_.top_logprobs) + top;
  return args;
}

Expected<void> StepSlot::download(tensor::Stream* stream) {
  if (rows_ == 0) return {};
  return to_expected(device_.api->memory.copy(
      device_.device, stream, host_out_.data(), device_out_.data(), result_layout_.bytes));
}

Expected<void> StepSlot::record(tensor::Stream* stream,
                                std::span<const std::unique_ptr<ExpertLink>> links) {
  TANDEM_CHECK(events_.size() == links.size() + 1);
  TANDEM_TRY(
      to_expected(device_.api->memory.record(device_.device, stream, events_[0].event.get())));
  for (size_t i = 0; i < links.size(); ++i) {
    TANDEM_TRY(links[i]->record_step(events_[i + 1].event.get()));
  }
  return {};
}

Expected<void> StepSlot::wait() const {
  Expected<void> first;
  for (const EventOf& entry : events_) {
    auto result =
        to_expected(entry.device.api->memory.wait(entry.device.device, entry.event.get()));
    if (!result && first) first = std::move(result);
  }
  return first;
}

void StepSlot::read(StepResult& result) const {
  const auto rows = static_cast<size_t>(rows_);
  const size_t tops = rows * static_cast<size_t>(max_top_logprobs_);
  result.max_top_logprobs = max_top_logprobs_;
  result.rows.resize(rows);
  result.top_ids.resize(tops);
  result.top_logprobs.resize(tops);
  if (rows == 0) return;
  const auto* base = host_out_.as<std::byte>();
  std::memcpy(
      result.rows.data(), base + result_layout_.results, rows * sizeof(kernels::SampleResult));
  if (tops == 0) return;
  std::memcpy(result.top_ids.data(), base + result_layout_.top_ids, tops * sizeof(int32_t));
  std::memcpy(result.top_logprobs.data(), base + result_layout_.top_logprobs, tops * sizeof(float));
}

}  // namespace tandem::model
