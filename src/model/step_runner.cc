#include "model/step_runner.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tandem::model {
namespace {

using kernels::Segment;
using tensor::DType;
using tensor::to_expected;

template <class... Args>
std::unexpected<Error> bad_batch(fmt::format_string<Args...> format, Args&&... args) {
  return fail(
      ErrorCode::kInvalidArgument, "batch: {}", fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace

StepRunner::StepRunner(const LoadedModel& model, const StepRunnerOptions& options)
    : model_(model), options_(options) {}

StepRunner::~StepRunner() {
  if (decoder_) recover();
}

// Until every stream of the steps is idle.
void StepRunner::recover() {
  decoder_->recover();
  if (tier_) tier_->steps_idle();
}

Expected<std::unique_ptr<StepRunner>> StepRunner::create(const LoadedModel& model,
                                                         const StepRunnerOptions& options) {
  if (options.max_tokens < 1 || options.max_logits_rows < 1 || options.kv_blocks < 1 ||
      options.host_blocks < 0 || options.max_positions < 1) {
    return fail(ErrorCode::kInvalidArgument,
                "steps of {} tokens, {} logits rows, {} KV blocks and {} positions cannot be run",
                options.max_tokens,
                options.max_logits_rows,
                options.kv_blocks,
                options.max_positions);
  }
  std::unique_ptr<StepRunner> runner(new StepRunner(model, options));
  runner->kv_dtype_ = options.kv_dtype.value_or(model.activation());
  // A position without a block cannot be reached: no table for it.
  runner->options_.max_positions = std::min(
      {options.max_positions,
       model.spec().max_positions,
       std::min(options.kv_blocks, INT64_MAX / kernels::kBlockTokens) * kernels::kBlockTokens});
  runner->options_.max_logits_rows = std::min(options.max_logits_rows, options.max_tokens);
  const DecoderOptions decoder_options{.max_tokens = options.max_tokens,
                                       .max_logits_rows = runner->options_.max_logits_rows,
                                       .max_positions = runner->options_.max_positions};
  TANDEM_ASSIGN(runner->decoder_, Decoder::create(model, decoder_options));
  const kernels::DeviceRef device = runner->decoder_->device();
  TANDEM_ASSIGN(runner->kv_,
                KvPool::create(device, model.spec(), options.kv_blocks, runner->kv_dtype_));
  if (options.host_blocks > 0) {
    TANDEM_ASSIGN(runner->tier_, HostTier::create(device, runner->kv_, options.host_blocks));
  }
  for (int i = 0; i < kDepth; ++i) {
    TANDEM_ASSIGN(StepSlot slot, StepSlot::create(device, runner->decoder_->links()));
    runner->slots_.push_back(std::move(slot));
    if (!options.keep_logits) continue;
    const size_t bytes = static_cast<size_t>(options.max_tokens) *
                         static_cast<size_t>(model.spec().vocabulary) * sizeof(float);
    TANDEM_ASSIGN(runner->keep_[static_cast<size_t>(i)],
                  tensor::Buffer::allocate(device.device,
                                           device.api->memory,
                                           {.bytes = bytes, .kind = tensor::MemoryKind::kPinned}));
  }
  return runner;
}

Expected<void> StepRunner::launch(const Batch& batch) {
  TANDEM_CHECK(in_flight_ < kDepth, "collect() the oldest step first");
  TANDEM_TRY(check(batch));
  StepSlot& slot = slots_[static_cast<size_t>(launched_ % kDepth)];
  const StepSlot* previous =
      previous_valid_ ? &slots_[static_cast<size_t>((launched_ + kDepth - 1) % kDepth)] : nullptr;
  auto submitted = submit(slot, previous, batch);
  if (!submitted) {
    // Part of the step may run already; nobody will ask for it.
    recover();
    previous_valid_ = false;
    return submitted;
  }
  slot.in_flight = true;
  slot.lost = false;
  ++launched_;
  ++in_flight_;
  previous_valid_ = true;
  return {};
}

Expected<void> StepRunner::submit(StepSlot& slot, const StepSlot* previous, const Batch& batch) {
  tensor::Stream* stream = decoder_->stream();
  TANDEM_TRY(slot.upload(stream, batch));
  TANDEM_TRY(decoder_->run(slot.device_batch(previous), kv_.layers()));
  TANDEM_TRY(sample(slot));
  TANDEM_TRY(slot.download(stream));
  return slot.record(stream, decoder_->links());
}

Expected<void> StepRunner::sample(StepSlot& slot) {
  const kernels::DeviceRef device = decoder_->device();
  const size_t row_bytes = static_cast<size_t>(model_.spec().vocabulary) * sizeof(float);
  for (int32_t first = 0; first < slot.rows(); first += options_.max_logits_rows) {
    const int32_t count = std::min(options_.max_logits_rows, slot.rows() - first);
    TANDEM_ASSIGN(const tensor::RowsView logits,
                  decoder_->logits(slot.logits_rows() + first, count));
    if (options_.keep_logits) {
      std::byte* keep = keep_[static_cast<size_t>(&slot - slots_.data())].as<std::byte>();
      TANDEM_TRY(to_expected(device.api->memory.copy(device.device,
                                                     decoder_->stream(),
                                                     keep + static_cast<size_t>(first) * row_bytes,
                                                     logits.data,
                                                     static_cast<size_t>(count) * row_bytes)));
    }
    const kernels::SampleArgs args = slot.sample_args(first, count, logits);
    TANDEM_TRY(to_expected(device.api->sample(device.device, decoder_->stream(), &args)));
  }
  return {};
}

Expected<void> StepRunner::collect(StepResult& result) {
  TANDEM_CHECK(in_flight_ > 0, "nothing was launched");
  const size_t index = static_cast<size_t>((launched_ - in_flight_) % kDepth);
  StepSlot& slot = slots_[index];
  auto done = slot.wait();
  slot.in_flight = false;
  --in_flight_;
  kept_ = {};
  if (done && slot.lost) {
    done = fail(ErrorCode::kInternal, "a step that this one builds upon has failed");
  }
  if (!done) {
    recover();
    for (StepSlot& other : slots_) other.lost = other.in_flight;
    previous_valid_ = false;
    return done;
  }
  slot.read(result);
  if (options_.keep_logits) {
    kept_ = {keep_[index].as<float>(),
             static_cast<size_t>(slot.rows()) * static_cast<size_t>(model_.spec().vocabulary)};
  }
  return {};
}

Expected<void> StepRunner::copy_blocks(std::span<const BlockCopy> copies) {
  return kv_.copy_blocks(decoder_->stream(), copies);
}

Expected<void> StepRunner::start_transfer(const TransferOrder& order) {
  if (!tier_) return fail(ErrorCode::kUnsupported, "there is no host tier");
  return tier_->start(decoder_->stream(), order);
}

void StepRunner::finished_transfers(bool wait, std::vector<TransferReport>& reports) {
  if (tier_) tier_->finished(wait, reports);
}

Expected<void> StepRunner::check(const Batch& batch) const {
  const int32_t tokens = batch.tokens();
  if (tokens < 1 || tokens > options_.max_tokens) {
    return bad_batch("{} tokens, accepted are 1 to {}", tokens, options_.max_tokens);
  }
  if (batch.positions.size() != batch.token_ids.size()) return bad_batch("positions do not fit");
  const int32_t previous_rows =
      previous_valid_ ? slots_[static_cast<size_t>((launched_ + kDepth - 1) % kDepth)].rows() : 0;
  for (int32_t t = 0; t < tokens; ++t) {
    const int32_t id = batch.token_ids[static_cast<size_t>(t)];
    if (id >= model_.spec().vocabulary || (id < 0 && ~id >= previous_rows)) {
      return bad_batch("token id {} of row {}", id, t);
    }
    const int32_t position = batch.positions[static_cast<size_t>(t)];
    if (position < 0 || position >= options_.max_positions) {
      return bad_batch(
          "position {} of row {}, accepted are 0 to {}", position, t, options_.max_positions - 1);
    }
  }
  int32_t row = 0;
  for (const Segment& segment : batch.segments) {
    if (segment.first_row != row || segment.rows < 1 || segment.rows > tokens - row) {
      return bad_batch("the segments do not cover its rows");
    }
    for (int32_t r = 0; r < segment.rows; ++r, ++row) {
      if (batch.positions[static_cast<size_t>(row)] != segment.first_position + r) {
        return bad_batch("position of row {} is not its segment's", row);
      }
    }
  }
  if (row != tokens) return bad_batch("the segments do not cover its rows");
  TANDEM_TRY(check_groups(batch));
  return check_sampling(batch);
}

Expected<void> StepRunner::check_groups(const Batch& batch) const {
  if (batch.groups.size() != 1) return bad_batch("{} KV groups, wanted 1", batch.groups.size());
  const BatchKvGroup& group = batch.groups[0];
  if (group.slots.size() != batch.token_ids.size()) return bad_batch("slots do not fit");
  for (const int64_t slot : group.slots) {
    if (slot < -1 || slot >= options_.kv_blocks * kernels::kBlockTokens) {
      return bad_batch("KV slot {}", slot);
    }
  }
  for (const Segment& segment : batch.segments) {
    const int64_t stride = group.block_table_stride;
    const int64_t blocks =
        (int64_t{segment.first_position} + segment.rows - 1) / kernels::kBlockTokens + 1;
    if (segment.sequence < 0 || stride < blocks ||
        (int64_t{segment.sequence} + 1) * stride > std::ssize(group.block_table)) {
      return bad_batch("block table of sequence {} is too short", segment.sequence);
    }
    for (int64_t i = 0; i < blocks; ++i) {
      const int32_t block =
          group.block_table[static_cast<size_t>(int64_t{segment.sequence} * stride + i)];
      if (block < 0 || block >= options_.kv_blocks) return bad_batch("KV block {}", block);
    }
  }
  return {};
}

Expected<void> StepRunner::check_sampling(const Batch& batch) const {
  if (batch.sample_rows.size() != batch.logits_rows.size() ||
      batch.bias_ids.size() != batch.bias_values.size() || batch.max_top_logprobs < 0 ||
      batch.max_top_logprobs > model_.spec().vocabulary) {
    return bad_batch("sampling rows do not fit");
  }
  for (const int32_t row : batch.logits_rows) {
    if (row < 0 || row >= batch.tokens()) return bad_batch("logits of row {}", row);
  }
  const auto inside = [](int64_t begin, int64_t count, size_t size) {
    return begin >= 0 && count >= 0 && begin + count <= static_cast<int64_t>(size);
  };
  const int64_t masks = batch.mask_words > 0 ? std::ssize(batch.masks) / batch.mask_words : 0;
  for (const kernels::SampleRow& row : batch.sample_rows) {
    if (!inside(row.bias_begin, row.bias_count, batch.bias_ids.size()) ||
        !inside(row.history_begin, row.history_count, batch.history.size()) ||
        row.mask_row >= masks || row.forced_id >= model_.spec().vocabulary ||
        row.top_logprobs > batch.max_top_logprobs) {
      return bad_batch("a sampling row points outside its arrays");
    }
  }
  return {};
}

}  // namespace tandem::model
