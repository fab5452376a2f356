#pragma once
// The machine under the engine's executor: takes a Batch, runs embedding, layers, logits and
// sampling on the devices, gives the sampled rows back. Several steps may be in flight: a step's
// negative ids stand for what the step before is still sampling, on the device.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "model/batch.h"
#include "model/block_transfer.h"
#include "model/decoder.h"
#include "model/host_tier.h"
#include "model/kv_pool.h"
#include "model/loaded_model.h"
#include "model/step_slot.h"

namespace tandem::model {

struct StepRunnerOptions {
  int32_t max_tokens = 0;       // of a batch: max_num_batched_tokens
  int32_t max_logits_rows = 0;  // logits kept at once; a batch may ask for more: done in pieces
  int64_t kv_blocks = 0;
  int64_t host_blocks = 0;                // of the host tier; 0 = there is none
  int64_t max_positions = 0;              // longest sequence: max_model_len
  std::optional<tensor::DType> kv_dtype;  // kF32 or kBF16; empty: the activation type
  bool keep_logits = false;  // logits() gives the raw logits of the step last collected (tests)
};

// Owner: the engine. One thread. Borrows the model and its devices.
class StepRunner {
 public:
  static constexpr int kDepth = 2;

  // Allocates everything. Errors: kInvalidArgument for options, kOutOfMemory, kUnsupported.
  static Expected<std::unique_ptr<StepRunner>> create(const LoadedModel& model,
                                                      const StepRunnerOptions& options);
  StepRunner(const StepRunner&) = delete;
  StepRunner& operator=(const StepRunner&) = delete;
  ~StepRunner();

  // Copies the batch and submits the step; the work goes on in the background. At most kDepth
  // launches wait for their collect(). kInvalidArgument: a batch that contradicts itself (nothing
  // was submitted); other errors are failures of a device. After an error the runner can go on.
  Expected<void> launch(const Batch& batch);

  // Waits for the oldest launch. `result` keeps its capacity. An error is a failure of the device
  // for the whole step; steps launched meanwhile fail with it.
  Expected<void> collect(StepResult& result);

  // Copies whole blocks: after the work of the last launch, before that of the next. A copy that
  // fails takes the next step along.
  Expected<void> copy_blocks(std::span<const BlockCopy> copies);

  // Transfers between the pool and the host tier, beside the steps (host_tier.h). With
  // host_blocks()
  // == 0 start_transfer() is kUnsupported.
  int64_t host_blocks() const { return tier_ ? tier_->blocks() : 0; }
  Expected<void> start_transfer(const TransferOrder& order);
  void finished_transfers(bool wait, std::vector<TransferReport>& reports);

  int depth() const { return kDepth; }
  int in_flight() const { return in_flight_; }

  // keep_logits: [rows, vocabulary] of the step last collected, before sampling changed them.
  std::span<const float> logits() const { return kept_; }

  const KvPool& kv() const { return kv_; }
  tensor::DType kv_dtype() const { return kv_dtype_; }
  size_t workspace_bytes() const { return decoder_->workspace_bytes(); }

 private:
  StepRunner(const LoadedModel& model, const StepRunnerOptions& options);
  Expected<void> check(const Batch& batch) const;
  Expected<void> check_groups(const Batch& batch) const;
  Expected<void> check_sampling(const Batch& batch) const;
  Expected<void> submit(StepSlot& slot, const StepSlot* previous, const Batch& batch);
  Expected<void> sample(StepSlot& slot);
  void recover();

  const LoadedModel& model_;
  StepRunnerOptions options_;
  tensor::DType kv_dtype_ = tensor::DType::kF32;
  KvPool kv_;
  std::unique_ptr<HostTier> tier_;           // may be null
  std::vector<StepSlot> slots_;              // kDepth, used in turn
  std::array<tensor::Buffer, kDepth> keep_;  // pinned, with keep_logits
  std::span<const float> kept_;
  int64_t launched_ = 0;  // steps so far; the next uses slot launched_ % kDepth
  int in_flight_ = 0;
  bool previous_valid_ = false;  // the step before was launched and has not failed
  // Last: its destructor waits for work that uses what stands above.
  std::unique_ptr<Decoder> decoder_;
};

}  // namespace tandem::model
