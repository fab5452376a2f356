#pragma once
// For tests: a checkpoint on devices behind a StepRunner, and sequences that are driven through it
// chunk by chunk without an engine.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "model/config.h"
#include "model/loaded_model.h"
#include "model/planner.h"
#include "model/step_runner.h"
#include "system/cpu_features.h"
#include "weights/checkpoint.h"

namespace tandem::testing {

enum class DeviceKind { kReference, kCpu };

struct MachineOptions {
  DeviceKind kind = DeviceKind::kReference;
  tensor::DType activation = tensor::DType::kF32;
  bool experts_away = false;  // on a second device of the same kind
  int threads = 2;            // of a CPU device
  int32_t max_tokens = 256;
  int32_t max_logits_rows = 64;  // fewer than a prompt's: logits are made in pieces
  int64_t kv_blocks = 24;
  // May put other tables in front of the devices.
  std::function<void(std::vector<kernels::DeviceRef>&)> adapt = {};
};

inline std::vector<DeviceKind> tested_devices() {
  return {DeviceKind::kReference, DeviceKind::kCpu};
}

inline Expected<kernels::OwnedDevice> open_test_device(const MachineOptions& options, int index) {
  if (options.kind == DeviceKind::kReference) {
    return kernels::open_reference_device(options.activation);
  }
  kernels::CpuDeviceConfig config;
  config.name = "cpu:" + std::to_string(index);
  config.threads = options.threads;
  config.activation = options.activation;
  config.instruction_set = system::best_instruction_set(system::detect_cpu_features());
  return kernels::open_cpu_device(config);
}

// Owns all that a run needs, in the order in which it must end.
struct Machine {
  std::vector<kernels::OwnedDevice> devices;
  std::unique_ptr<model::LoadedModel> model;
  std::unique_ptr<model::StepRunner> runner;
};

inline Expected<Machine> start_machine(const std::string& directory,
                                       const MachineOptions& options) {
  Machine machine;
  std::vector<kernels::DeviceRef> refs;
  for (int i = 0; i < (options.experts_away ? 2 : 1); ++i) {
    TANDEM_ASSIGN(kernels::OwnedDevice device, open_test_device(options, i));
    refs.push_back(device.ref());
    machine.devices.push_back(std::move(device));
  }
  if (options.adapt) options.adapt(refs);
  TANDEM_ASSIGN(model::ModelSpec spec, model::read_model_config(directory));
  model::PlacementOptions placement;
  if (options.experts_away) placement.expert_device = 1;
  model::Plan plan =
      model::make_plan(spec, model::make_placement(spec, placement), options.activation);
  TANDEM_ASSIGN(const weights::Checkpoint checkpoint, weights::Checkpoint::open(directory));
  TANDEM_TRY(model::resolve_plan(plan, spec, refs, checkpoint));
  TANDEM_ASSIGN(machine.model,
                model::LoadedModel::load(std::move(spec), plan, refs, checkpoint, {.threads = 2}));
  const model::StepRunnerOptions runner{.max_tokens = options.max_tokens,
                                        .max_logits_rows = options.max_logits_rows,
                                        .kv_blocks = options.kv_blocks,
                                        .max_positions = machine.model->spec().max_positions,
                                        .keep_logits = true};
  TANDEM_ASSIGN(machine.runner, model::StepRunner::create(*machine.model, runner));
  return machine;
}

// A sequence's place in the cache. Blocks are handed out from both ends so that tables are not
// runs of neighbours.
struct TestSequence {
  std::vector<int32_t> blocks;
  int32_t computed = 0;
  int32_t prompt = 0;       // P of the rule of MLA's forms
  int32_t expand_from = 0;  // S; 0 = all rows absorbed
};

class BlockSource {
 public:
  explicit BlockSource(int64_t blocks) : last_(static_cast<int32_t>(blocks) - 1) {}
  int32_t take() {
    from_end_ = !from_end_;
    return from_end_ ? last_-- : first_++;
  }

 private:
  int32_t first_ = 0;
  int32_t last_ = 0;
  bool from_end_ = false;
};

inline kernels::MlaForm form_of(const TestSequence& s, int32_t position) {
  const bool expanded = s.expand_from > 0 && s.prompt >= s.expand_from &&
                        position < s.expand_from * (s.prompt / s.expand_from);
  return expanded ? kernels::MlaForm::kExpanded : kernels::MlaForm::kAbsorbed;
}

// Builds batches for sequences 0, 1, …; one use each: add rows, then finish().
class TestBatch {
 public:
  explicit TestBatch(BlockSource& source) : source_(source) { batch_.groups.resize(1); }

  // Appends ids to a sequence; every row, or the last one alone, gets logits.
  void add(TestSequence& s, const std::vector<int32_t>& ids, bool all_logits) {
    const auto table_row = static_cast<int32_t>(tables_.size());
    const int32_t end = s.computed + static_cast<int32_t>(ids.size());
    while (static_cast<int32_t>(s.blocks.size()) * kernels::kBlockTokens < end) {
      s.blocks.push_back(source_.take());
    }
    tables_.push_back(&s);
    for (const int32_t id : ids) {
      const int32_t position = s.computed++;
      const int32_t row = batch_.tokens();
      const kernels::MlaForm form = form_of(s, position);
      const bool first = position == end - static_cast<int32_t>(ids.size());
      if (first || batch_.segments.back().form != form) {
        batch_.segments.push_back({table_row, row, 0, position, form, 0});
      }
      ++batch_.segments.back().rows;
      batch_.token_ids.push_back(id);
      batch_.positions.push_back(position);
      batch_.groups[0].slots.push_back(
          int64_t{s.blocks[static_cast<size_t>(position / kernels::kBlockTokens)]} *
              kernels::kBlockTokens +
          position % kernels::kBlockTokens);
      if (!all_logits && s.computed != end) continue;
      batch_.logits_rows.push_back(row);
      kernels::SampleRow sample;
      sample.temperature = 0;
      batch_.sample_rows.push_back(sample);
    }
  }

  const model::Batch& finish() {
    size_t stride = 1;
    for (const TestSequence* s : tables_) stride = std::max(stride, s->blocks.size());
    batch_.groups[0].block_table_stride = static_cast<int32_t>(stride);
    batch_.groups[0].block_table.assign(stride * tables_.size(), 0);
    for (size_t i = 0; i < tables_.size(); ++i) {
      std::copy(tables_[i]->blocks.begin(),
                tables_[i]->blocks.end(),
                batch_.groups[0].block_table.begin() + static_cast<std::ptrdiff_t>(i * stride));
    }
    return batch_;
  }

 private:
  BlockSource& source_;
  model::Batch batch_;
  std::vector<const TestSequence*> tables_;
};

// One step of one sequence: logits [rows, vocabulary], and the greedy ids.
struct StepOutput {
  std::vector<float> logits;
  model::StepResult result;
};

inline StepOutput run_step(Machine& machine, TestBatch& batch) {
  StepOutput output;
  auto launched = machine.runner->launch(batch.finish());
  EXPECT_TRUE(launched) << (launched ? "" : launched.error().to_line());
  if (!launched) return output;
  auto collected = machine.runner->collect(output.result);
  EXPECT_TRUE(collected) << (collected ? "" : collected.error().to_line());
  const auto logits = machine.runner->logits();
  output.logits.assign(logits.begin(), logits.end());
  return output;
}

}  // namespace tandem::testing
