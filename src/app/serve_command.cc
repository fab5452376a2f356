#include "app/serve_command.h"

#include <fmt/core.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstdio>

#include "app/bundled_model.h"
#include "app/loaded_runtime.h"
#include "app/startup_table.h"
#include "app/text_files.h"
#include "app/version.h"
#include "base/log.h"
#include "engine/engine.h"
#include "engine/model_executor.h"
#include "frontend/frontend.h"
#include "serve/api_server.h"
#include "system/files.h"
#include "system/open_files.h"
#include "system/signals.h"

namespace tandem::app {
namespace {

// On the CPU planning the next step while one runs would only compete with it for cores.
constexpr int kStepsInFlight = 1;

LogLevel parse_log_level(const std::string& name) {
  if (name == "debug") return LogLevel::kDebug;
  if (name == "warning") return LogLevel::kWarning;
  if (name == "error") return LogLevel::kError;
  return LogLevel::kInfo;
}

engine::PreemptionMode preemption(const ServeOptions& options) {
  if (options.preemption_mode == "swap") return engine::PreemptionMode::kSwap;
  if (options.preemption_mode == "recompute") return engine::PreemptionMode::kRecompute;
  return engine::PreemptionMode::kMeasured;
}

std::string arithmetic(const ServeOptions& options) {
  return activation_type(options) == tensor::DType::kF32 ? "float32"
                                                         : "bfloat16 inputs, float32 sums";
}

// What makes answers differ: program, model, arithmetic, devices. Clients compare it (OpenAI's
// system_fingerprint).
std::string fingerprint(const ServeOptions& options,
                        const LoadedRuntime& runtime,
                        const kernels::DeviceInfo& device) {
  const model::ModelSpec& spec = runtime.model->spec();
  const std::string text = fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}",
                                       kVersion,
                                       runtime.directory,
                                       spec.architecture,
                                       spec.hidden,
                                       spec.layers.size(),
                                       runtime.file_bytes,
                                       arithmetic(options),
                                       device.instruction_set,
                                       options.load_format);
  return fmt::format(
      "tandem-{}-{:08x}", kVersion, static_cast<uint32_t>(XXH3_64bits(text.data(), text.size())));
}

Expected<TextFiles> load_text(const ServeOptions& options, const LoadedRuntime& runtime) {
  const bool has_tokenizer = system::is_regular_file(runtime.directory + "/tokenizer.json");
  if (options.load_format == "dummy" && !has_tokenizer) {
    log_warning("no tokenizer beside the random weights: each byte of a prompt is a token");
    return byte_text_files();
  }
  return read_text_files(runtime.directory);
}

Expected<std::unique_ptr<engine::Engine>> start_engine(const ServeOptions& options,
                                                       LoadedRuntime& runtime,
                                                       const std::string& name,
                                                       const Clock& clock) {
  engine::EngineConfig config;
  config.blocks = static_cast<int32_t>(runtime.kv_blocks);
  config.vocabulary = static_cast<int32_t>(runtime.model->spec().vocabulary);
  config.max_model_len = static_cast<int32_t>(runtime.max_model_len);
  config.max_num_seqs = static_cast<int32_t>(options.max_num_seqs);
  config.max_num_batched_tokens = static_cast<int32_t>(options.max_num_batched_tokens);
  config.max_queue = static_cast<int32_t>(options.max_num_queued_reqs);
  config.prefix_caching = options.enable_prefix_caching;
  config.preemption = preemption(options);
  config.fingerprint = name;
  config.long_prefill_threshold = static_cast<int32_t>(options.long_prefill_token_threshold);
  config.form.expand_from = static_cast<int32_t>(options.mla_expand_from);
  return engine::Engine::create(
      std::move(config),
      std::make_unique<engine::ModelExecutor>(std::move(runtime.runner), kStepsInFlight),
      clock);
}

// Which tokens open and close thinking, if it is to be split off.
Expected<std::optional<frontend::ReasoningMarks>> reasoning_marks(const ServeOptions& options,
                                                                  const TextFiles& text) {
  if (options.reasoning_parser == "none") return std::nullopt;
  const auto marks = frontend::find_reasoning_marks(*text.tokenizer);
  if (!marks && options.reasoning_parser != "auto") {
    return fail(
        ErrorCode::kInvalidArgument,
        "--reasoning-parser {} needs a model with the tokens <think> and </think>; this one "
        "has none",
        options.reasoning_parser);
  }
  return marks;
}

frontend::FrontendConfig frontend_config(const LoadedRuntime& runtime, const TextFiles& text) {
  const model::ModelSpec& spec = runtime.model->spec();
  frontend::FrontendConfig config;
  config.limits.max_model_len = runtime.max_model_len;
  config.limits.vocabulary = spec.vocabulary;
  config.defaults = runtime.generation;
  config.special_tokens = text.special_tokens;
  config.eos_ids = config.defaults.eos_ids.empty() ? spec.eos_ids : config.defaults.eos_ids;
  return config;
}

serve::ApiConfig api_config(const ServeOptions& options,
                            const LoadedRuntime& runtime,
                            const Clock& clock) {
  serve::ApiConfig config;
  config.http.host = options.host;
  config.http.port = static_cast<uint16_t>(options.port);
  config.http.echo_request_id = options.enable_request_id_headers;
  config.model_names = options.served_model_names;
  if (config.model_names.empty())
    config.model_names.push_back(default_model_name(runtime.directory));
  config.model_root = config.model_names.front();
  config.version = kVersion;
  config.prompt_tokens_details = options.enable_prompt_tokens_details;
  config.access.keys = net::ApiKeys(options.api_keys);
  config.access.metrics_open = options.metrics_open;
  config.cors = {.origins = options.allowed_origins,
                 .methods = options.allowed_methods,
                 .headers = options.allowed_headers,
                 .credentials = options.allow_credentials};
  config.clock = &clock;
  config.step_budget = std::chrono::seconds(options.engine_iteration_timeout_s);
  return config;
}

serve::MetricsConfig metrics_config(const ServeOptions& options,
                                    const LoadedRuntime& runtime,
                                    const serve::ApiConfig& api) {
  const bool rounds = activation_type(options) != tensor::DType::kF32;
  return {
      .model_name = api.model_names.front(),
      .version = api.version,
      .max_model_len = runtime.max_model_len,
      .cache_info = {{"block_size", std::to_string(kernels::kBlockTokens)},
                     {"cache_dtype", rounds ? "bfloat16" : "float32"},
                     {"enable_prefix_caching", options.enable_prefix_caching ? "True" : "False"},
                     {"num_cpu_blocks", std::to_string(runtime.host_blocks)},
                     {"num_gpu_blocks", std::to_string(runtime.kv_blocks)},
                     {"swap_space_bytes", std::to_string(options.swap_space_bytes)}},
      .step_budget = api.step_budget};
}

Expected<kernels::DeviceInfo> describe(kernels::DeviceRef device) {
  kernels::DeviceInfo info;
  TANDEM_TRY(tensor::to_expected(device.api->describe(device.device, &info)));
  return info;
}

Expected<void> print_table(const ServeOptions& options,
                           const LoadedRuntime& runtime,
                           const serve::ApiConfig& api,
                           StartupFacts facts) {
  facts.model_name = api.model_names.front();
  facts.model_path = runtime.directory;
  facts.spec = &runtime.model->spec();
  facts.file_bytes = runtime.file_bytes;
  facts.weight_bytes = runtime.weight_bytes;
  for (const kernels::DeviceRef& device : runtime.devices.refs()) {
    TANDEM_ASSIGN(const kernels::DeviceInfo info, describe(device));
    facts.device_names.emplace_back(info.name);
    facts.instruction_set = info.instruction_set;
    facts.threads = info.threads;
  }
  facts.kv_blocks = runtime.kv_blocks;
  facts.host_blocks = runtime.host_blocks;
  facts.kv_bytes_per_token = facts.spec->kv_bytes_per_token(activation_type(options));
  facts.max_model_len = runtime.max_model_len;
  facts.max_num_seqs = options.max_num_seqs;
  facts.max_num_batched_tokens = options.max_num_batched_tokens;
  facts.arithmetic = arithmetic(options);
  facts.host = options.host;
  fmt::print("{}", startup_table(facts));
  std::fflush(stdout);
  return {};
}

// Connections are descriptors: allows as many as the system lets us, and accepts no more than that.
Expected<void> fit_connections(net::HttpLimits& limits) {
  constexpr int64_t kOtherFiles = 128;  // weights, threads' events, logs
  const auto wanted = static_cast<int64_t>(limits.max_connections) + kOtherFiles;
  TANDEM_ASSIGN(const int64_t allowed, system::raise_open_file_limit(wanted));
  if (allowed >= wanted) return {};
  limits.max_connections = static_cast<size_t>(std::max<int64_t>(allowed - kOtherFiles, 16));
  log_warning("at most {} connections: the limit of open files is {} (ulimit -n; {} would do)",
              limits.max_connections,
              allowed,
              wanted);
  return {};
}

// Not ready at once; running requests get `timeout`, a second signal ends the wait.
void drain(engine::Engine& engine,
           serve::ApiServer& server,
           system::SignalWaiter& signals,
           const Clock& clock,
           std::chrono::seconds timeout) {
  log_info("shutting down: running requests get {} s", timeout.count());
  server.begin_drain();
  std::jthread hurry([&](std::stop_token stop) {
    if (signals.wait(stop)) engine.drain(clock.now());
  });
  engine.drain(clock.now() + timeout);
  hurry.request_stop();
  hurry.join();
  server.stop(std::chrono::seconds(5));
  const engine::EngineCounters c = engine.counters();
  log_info(
      "served {} requests in {} steps ({} with several sequences, at most {}): {} prompt and {} "
      "output tokens",
      c.requests,
      c.steps,
      c.shared_steps,
      c.sequences_per_step.largest,
      c.prompt_tokens,
      c.generation_tokens);
}

}  // namespace

Expected<void> serve_command(const ServeOptions& options) {
  const SteadyClock clock;
  const TimePoint begin = clock.now();
  init_logging(parse_log_level(options.log_level), options.log_json);
  // Before any other thread, so that all of them leave the signals to us.
  TANDEM_ASSIGN(system::SignalWaiter signals, system::SignalWaiter::create());
  TANDEM_ASSIGN(LoadedRuntime runtime, load_runtime(options));
  TANDEM_ASSIGN(const TextFiles text, load_text(options, runtime));
  serve::ApiConfig api = api_config(options, runtime, clock);
  TANDEM_TRY(fit_connections(api.http.limits));
  TANDEM_ASSIGN(const kernels::DeviceInfo device, describe(runtime.devices.refs().front()));
  api.fingerprint = fingerprint(options, runtime, device);

  frontend::FrontendConfig front = frontend_config(runtime, text);
  TANDEM_ASSIGN(front.reasoning_marks, reasoning_marks(options, text));
  front.thinks_unasked = options.reasoning_parser == "deepseek_r1";

  StartupFacts facts;
  facts.workspace_bytes = runtime.runner->workspace_bytes();
  TANDEM_ASSIGN(const auto engine, start_engine(options, runtime, api.fingerprint, clock));
  serve::Metrics metrics(metrics_config(options, runtime, api), *engine, clock);
  front.observer = &metrics;
  frontend::Frontend frontend(front, *text.tokenizer, text.chat_template.get(), *engine, clock);
  serve::ApiServer server(api, frontend, *engine, metrics);
  TANDEM_ASSIGN(facts.port, server.start());
  facts.seconds_to_ready = std::chrono::duration<double>(clock.now() - begin).count();
  TANDEM_TRY(print_table(options, runtime, api, facts));

  signals.wait(std::stop_token{});
  drain(*engine, server, signals, clock, std::chrono::seconds(options.shutdown_timeout_s));
  return {};
}

}  // namespace tandem::app
