#pragma once
// An executor without a model, for tests of whatever stands above it: the next token is a hash of
// the whole history, so that any mistake of scheduling, paging or sampling rows shows as a wrong
// token. It keeps token ids in fake blocks and checks what it is told against them.
//
// Thread: as Executor; the failure switches may be set by any thread. Errors: those asked for; a
// wrong batch is recorded in `complaint()` and reported as an error.

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/config.h"
#include "engine/executor.h"
#include "engine/request.h"

namespace tandem::engine {

struct FakeExecutorOptions {
  int32_t depth = 1;
  bool copies_blocks = false;
  int32_t host_blocks = 0;
  int32_t transfer_polls = 2;            // a transfer ends at this poll after its start
  int32_t transfer_failures_one_in = 0;  // every so many fails
  std::chrono::microseconds step_time{0};
};

// Tests' way in while the engine owns the executor.
struct FakeControls {
  std::atomic<int64_t> launches{0};
  std::atomic<int64_t> collects{0};
  std::atomic<int64_t> copies{0};
  std::atomic<int64_t> fail_launch{-1};   // the launch of this number fails; -2: all
  std::atomic<int64_t> fail_collect{-1};  // likewise
  std::atomic<int32_t> poison_token{-1};  // a history with this token gives NaN
  std::atomic<int32_t> step_time_us{0};
  std::atomic<bool> throws{false};   // the next step throws: the engine cannot go on
  std::atomic<bool> stalled{false};  // a step does not come back while this is set

  void complain(std::string text);
  std::string complaint() const;  // the first one; empty = all batches were sound

 private:
  mutable std::mutex mutex_;
  std::string complaint_;
};

class FakeExecutor final : public Executor {
 public:
  FakeExecutor(const EngineConfig& config,
               FakeExecutorOptions options,
               std::shared_ptr<FakeControls> controls);

  Expected<void> launch(const model::Batch& batch) override;
  Expected<void> collect(model::StepResult& result) override;
  int depth() const override { return options_.depth; }
  bool copies_blocks() const override { return options_.copies_blocks; }
  Expected<void> copy_blocks(std::span<const BlockCopy> copies) override;
  int32_t host_blocks() const override { return options_.host_blocks; }
  Expected<void> start_transfer(const TransferOrder& order) override;
  void finished_transfers(bool wait, std::vector<TransferReport>& reports) override;

 private:
  struct Cell {
    int32_t token = -1;
    int32_t form = 0;
  };
  struct Pending {
    int64_t number = 0;
    model::StepResult result;
  };

  struct Moving {
    TransferOrder order;
    int32_t polls = 0;
  };

  void move_blocks(const TransferOrder& order, bool ok);
  Expected<void> check_shapes(const model::Batch& batch) const;
  Expected<void> append(const model::Batch& batch);
  Expected<void> read(const model::Batch& batch, const kernels::Segment& segment, int32_t row);
  Expected<void> sample(const model::Batch& batch, model::StepResult& result);
  void sample_row(const model::Batch& batch, int32_t row, model::StepResult& result);

  const EngineConfig config_;
  const FakeExecutorOptions options_;
  const std::shared_ptr<FakeControls> controls_;
  std::vector<Cell> cells_;  // [blocks * block_tokens]
  std::vector<Cell> host_cells_;
  std::vector<Moving> moving_;
  int64_t transfers_ = 0;
  std::vector<int32_t> tokens_;
  std::vector<int32_t> previous_ids_;
  std::vector<uint64_t> histories_;  // by token row
  std::vector<uint8_t> poisoned_;
  Pending pending_[2];  // ring
  size_t first_ = 0;
  size_t used_ = 0;
};

// What FakeExecutor gives for choice `choice` of `request` when it runs alone: the truth that
// engine tests compare with, made by no part of the engine.
std::vector<TokenEvent> fake_answer(const EngineConfig& config,
                                    const Request& request,
                                    int32_t choice);

}  // namespace tandem::engine
