#include "app/loaded_runtime.h"

#include <algorithm>

#include "app/bundled_model.h"
#include "app/kv_size.h"
#include "base/log.h"
#include "model/planner.h"
#include "system/cgroup.h"
#include "system/files.h"
#include "weights/checkpoint.h"

namespace tandem::app {
namespace {

constexpr size_t kMaxConfigBytes = 16 << 20;

// Logits rows held at once; a step with more is done in pieces.
constexpr int32_t kLogitsRows = 256;

// A folder; or, for random weights, a lone config.json under any name.
Expected<model::ModelSpec> read_spec(const std::string& path, const ServeOptions& options) {
  if (options.load_format == "dummy" && system::is_regular_file(path)) {
    TANDEM_ASSIGN(const std::string text, system::read_text_file(path, kMaxConfigBytes));
    const auto json = parse_json(text);
    if (!json) return fail(ErrorCode::kCorruptData, "{}: {}", path, json.error().message);
    return model::parse_model_config(*json, path);
  }
  if (!system::path_exists(path)) {
    return fail(
        Error{ErrorCode::kNotFound,
              fmt::format("model '{}' does not exist", path),
              "give the folder of a checkpoint: config.json, tokenizer.json and *.safetensors"});
  }
  if (!system::is_directory(path)) {
    return fail(ErrorCode::kUnsupported,
                "model '{}' is a file; accepted is the folder of a safetensors checkpoint",
                path);
  }
  return model::read_model_config(path);
}

Expected<int64_t> choose_max_model_len(const ServeOptions& options, const model::ModelSpec& spec) {
  if (!options.max_model_len) return spec.max_positions;
  if (*options.max_model_len > spec.max_positions) {
    return fail(ErrorCode::kInvalidArgument,
                "--max-model-len must be at most {}, the model's max_position_embeddings; found {}",
                spec.max_positions,
                *options.max_model_len);
  }
  return *options.max_model_len;
}

Expected<void> load_weights(const ServeOptions& options,
                            model::ModelSpec spec,
                            LoadedRuntime& out) {
  const std::vector<kernels::DeviceRef> refs = out.devices.refs();
  const auto placement =
      model::make_placement(spec, {.device = 0, .expert_device = out.devices.expert_device});
  model::Plan plan = model::make_plan(spec, placement, activation_type(options));
  const weights::LoadOptions load{
      .threads = options.cpu_threads > 0 ? options.cpu_threads : system::usable_threads(),
      .progress = {}};
  const auto finish = [&](const weights::TensorSource& source) -> Expected<void> {
    TANDEM_TRY(model::resolve_plan(plan, spec, refs, source));
    TANDEM_ASSIGN(out.model, model::LoadedModel::load(spec, plan, refs, source, load));
    out.weight_bytes = plan.weight_bytes;
    out.file_bytes = plan.source_bytes;
    return {};
  };
  if (options.load_format == "dummy") {
    model::use_uniform_routing(spec);
    return finish(model::make_dummy_source(spec, plan, 0));
  }
  TANDEM_ASSIGN(const weights::Checkpoint checkpoint, weights::Checkpoint::open(out.directory));
  return finish(checkpoint);
}

Expected<void> size_and_start(const ServeOptions& options, LoadedRuntime& out) {
  const model::ModelSpec& spec = out.model->spec();
  KvSizeInput size;
  size.bytes_per_token = spec.kv_bytes_per_token(activation_type(options));
  size.max_model_len = out.max_model_len;
  size.max_num_seqs = options.max_num_seqs;
  const int64_t available = system::available_memory_bytes();
  TANDEM_ASSIGN(out.host_blocks,
                host_blocks(options.swap_space_bytes, size.bytes_per_token, available));
  size.available_bytes = available - options.swap_space_bytes;
  size.asked_bytes = options.kv_cache_memory_bytes;
  TANDEM_ASSIGN(out.kv_blocks, kv_blocks(size));
  const int64_t pool_tokens = out.kv_blocks * kernels::kBlockTokens;
  if (pool_tokens < out.max_model_len) {
    if (options.max_model_len) {
      return fail(Error{ErrorCode::kInvalidArgument,
                        fmt::format("--max-model-len {} does not fit the KV pool of {} tokens",
                                    out.max_model_len,
                                    pool_tokens),
                        "raise --kv-cache-memory-bytes or lower --max-model-len"});
    }
    log_warning("the KV pool holds {} tokens: the context is cut to that from the model's {}",
                pool_tokens,
                out.max_model_len);
    out.max_model_len = pool_tokens;
  }
  model::StepRunnerOptions runner;
  runner.max_tokens = static_cast<int32_t>(options.max_num_batched_tokens);
  runner.max_logits_rows =
      static_cast<int32_t>(std::min<int64_t>(kLogitsRows, options.max_num_batched_tokens));
  runner.kv_blocks = out.kv_blocks;
  runner.host_blocks = out.host_blocks;
  runner.max_positions = out.max_model_len;
  TANDEM_ASSIGN(out.runner, model::StepRunner::create(*out.model, runner));
  return {};
}

}  // namespace

Expected<LoadedRuntime> load_runtime(const ServeOptions& options) {
  LoadedRuntime out;
  out.directory = options.model;
  if (out.directory.empty()) {
    TANDEM_ASSIGN(out.directory, find_bundled_model());
  }
  TANDEM_ASSIGN(model::ModelSpec spec, read_spec(out.directory, options));
  if (system::is_directory(out.directory)) {
    TANDEM_ASSIGN(out.generation, model::read_generation_config(out.directory));
    // The end tokens stay: they are the model's, not a taste in sampling.
    if (options.generation_config == "vllm") out.generation = {.eos_ids = out.generation.eos_ids};
  }
  TANDEM_ASSIGN(out.max_model_len, choose_max_model_len(options, spec));
  TANDEM_ASSIGN(out.devices, open_devices(options));
  TANDEM_TRY(load_weights(options, std::move(spec), out));
  TANDEM_TRY(size_and_start(options, out));
  return out;
}

}  // namespace tandem::app
