#pragma once
// For end-to-end tests in one process: a checkpoint on the fast CPU device, and engines over it.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "engine/model_executor.h"
#include "kernels/device.h"
#include "model/config.h"
#include "model/loaded_model.h"
#include "model/planner.h"
#include "model/step_runner.h"
#include "system/cpu_features.h"
#include "weights/checkpoint.h"

namespace tandem::e2e {

struct MachineOptions {
  std::string directory;
  tensor::DType activation = tensor::DType::kBF16;
  int threads = 2;
  system::InstructionSet instruction_set =
      system::best_instruction_set(system::detect_cpu_features());
};

// A loaded model. Outlives the engines that start_engine() makes of it; one of them at a time.
struct Machine {
  kernels::OwnedDevice device;  // ends after the model
  std::unique_ptr<model::LoadedModel> model;

  int32_t vocabulary() const { return static_cast<int32_t>(model->spec().vocabulary); }
};

inline Expected<Machine> open_machine(const MachineOptions& options) {
  Machine machine;
  kernels::CpuDeviceConfig config;
  config.threads = options.threads;
  config.activation = options.activation;
  config.instruction_set = options.instruction_set;
  TANDEM_ASSIGN(machine.device, kernels::open_cpu_device(config));
  const std::vector<kernels::DeviceRef> devices = {machine.device.ref()};
  TANDEM_ASSIGN(model::ModelSpec spec, model::read_model_config(options.directory));
  model::Plan plan = model::make_plan(spec, model::make_placement(spec, {}), options.activation);
  TANDEM_ASSIGN(const weights::Checkpoint checkpoint, weights::Checkpoint::open(options.directory));
  TANDEM_TRY(model::resolve_plan(plan, spec, devices, checkpoint));
  TANDEM_ASSIGN(
      machine.model,
      model::LoadedModel::load(std::move(spec), plan, devices, checkpoint, {.threads = 1}));
  return machine;
}

struct EngineOptions {
  int32_t chunk = 2048;  // max_num_batched_tokens
  int32_t batch = 256;   // max_num_seqs
  int32_t blocks = 256;
  int32_t host_blocks = 0;
  int depth = 1;  // steps in flight
  bool prefix_caching = false;
  engine::PreemptionMode preemption = engine::PreemptionMode::kRecompute;
  engine::FormRule form;
  int32_t long_prefill_threshold = 0;
};

struct EngineUnderTest {
  std::unique_ptr<Clock> clock;  // ends after the engine
  std::unique_ptr<engine::Engine> engine;
};

inline Expected<EngineUnderTest> start_engine(const Machine& machine,
                                              const EngineOptions& options) {
  model::StepRunnerOptions runner_options;
  runner_options.max_tokens = options.chunk;
  runner_options.max_logits_rows = std::min(64, options.chunk);
  runner_options.kv_blocks = options.blocks;
  runner_options.max_positions = machine.model->spec().max_positions;
  runner_options.host_blocks = options.host_blocks;
  TANDEM_ASSIGN(auto runner, model::StepRunner::create(*machine.model, runner_options));
  engine::EngineConfig config;
  config.blocks = options.blocks;
  config.vocabulary = machine.vocabulary();
  config.max_model_len = static_cast<int32_t>(machine.model->spec().max_positions);
  config.max_num_seqs = options.batch;
  config.max_num_batched_tokens = options.chunk;
  config.long_prefill_threshold = options.long_prefill_threshold;
  config.max_queue = 4096;
  config.prefix_caching = options.prefix_caching;
  config.preemption = options.preemption;
  config.form = options.form;
  auto executor = std::make_unique<engine::ModelExecutor>(std::move(runner), options.depth);
  EngineUnderTest out;
  out.clock = std::make_unique<SteadyClock>();
  TANDEM_ASSIGN(out.engine,
                engine::Engine::create(std::move(config), std::move(executor), *out.clock));
  return out;
}

}  // namespace tandem::e2e
