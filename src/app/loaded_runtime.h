#pragma once
// Everything under the frontend, made from flags in order: devices, model, step runner's size.

#include <memory>
#include <string>
#include <vector>

#include "app/devices.h"
#include "model/config.h"
#include "model/loaded_model.h"
#include "model/model_spec.h"
#include "model/step_runner.h"

namespace tandem::app {

struct LoadedRuntime {
  std::string directory;
  Devices devices;  // outlives all below
  model::GenerationDefaults generation;
  std::unique_ptr<model::LoadedModel> model;  // holds the spec
  std::unique_ptr<model::StepRunner> runner;  // moved into the executor
  std::vector<size_t> weight_bytes;           // by device
  size_t file_bytes = 0;
  int64_t max_model_len = 0;
  int64_t kv_blocks = 0;
  int64_t host_blocks = 0;  // of the host tier; 0 = none
};

// Errors are one line for the user.
Expected<LoadedRuntime> load_runtime(const ServeOptions& options);

}  // namespace tandem::app
