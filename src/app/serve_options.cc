#include "app/serve_options.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/json.h"

namespace tandem::app {
namespace {

struct Bounds {
  int64_t low = 0;
  int64_t high = 0;
};

// An integer option that takes suffixes; a wrong one is CLI11's own one-line error.
template <class Target>
void add_count(
    CLI::App& command, const char* name, Target& target, const char* help, Bounds bounds) {
  const auto parse = [&target, name, bounds](const std::string& text) {
    const auto value = parse_count(text);
    if (!value || *value < bounds.low || *value > bounds.high) {
      throw CLI::ValidationError(
          name,
          fmt::format("must be an integer from {} to {} (k, K, m, M, g, G allowed), found '{}'",
                      bounds.low,
                      bounds.high,
                      text));
    }
    target = *value;
  };
  command.add_option_function<std::string>(name, parse, help)->type_name("INT");
}

void add_model_options(CLI::App& command, ServeOptions& o) {
  command
      .add_option(
          "model,--model", o.model, "Folder of a checkpoint. Default: the bundled tandem-tiny-v3")
      ->envname("TANDEM_MODEL");
  command.add_option(
      "--served-model-name", o.served_model_names, "Names that clients use; the first is answered");
  command
      .add_option("--dtype",
                  o.dtype,
                  "Arithmetic: auto = bfloat16 inputs with float32 sums; float32 rounds nowhere")
      ->check(CLI::IsMember({"auto", "bfloat16", "float32", "float"}))
      ->capture_default_str();
  command
      .add_option("--load-format",
                  o.load_format,
                  "auto: read the checkpoint; dummy: random weights, to measure speed")
      ->check(CLI::IsMember({"auto", "safetensors", "dummy"}))
      ->capture_default_str();
  command
      .add_option("--generation-config",
                  o.generation_config,
                  "auto: sampling defaults from generation_config.json; vllm: neutral ones")
      ->check(CLI::IsMember({"auto", "vllm"}))
      ->capture_default_str();
}

void add_device_options(CLI::App& command, ServeOptions& o) {
  command
      .add_option("--device",
                  o.device,
                  "auto and cpu: this machine's processors; reference: plain code, slow")
      ->check(CLI::IsMember({"auto", "cpu", "reference"}))
      ->capture_default_str();
  command.add_option(
      "--moe-device",
      o.moe_device,
      "Where routed experts live and run: cpu:1 is a second CPU device. Default: as --device");
  command.add_option("--instruction-set", o.instruction_set, "Kernels of the CPU device")
      ->check(CLI::IsMember({"auto", "generic", "avx2", "avx512", "neon"}))
      ->capture_default_str();
  command
      .add_option("--cpu-threads",
                  o.cpu_threads,
                  "Compute threads; 0 = the smaller of affinity mask and CPU quota")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
}

void add_swap_options(CLI::App& command, ServeOptions& o) {
  const auto parse = [&o](const std::string& text) {
    const auto bytes = parse_gib(text);
    if (!bytes) throw CLI::ValidationError("--swap-space", bytes.error().message);
    o.swap_space_bytes = *bytes;
  };
  command
      .add_option_function<std::string>(
          "--swap-space",
          parse,
          "GiB of host memory for the KV of preempted requests, fractions too. Default: 0 = none")
      ->type_name("GIB");
  // For tests: no group, so that --help does not show it.
  command
      .add_option("--preemption-mode",
                  o.preemption_mode,
                  "auto: what costs less by measurement; recompute; swap: while there is room")
      ->check(CLI::IsMember({"auto", "recompute", "swap"}))
      ->group("");
}

void add_engine_options(CLI::App& command, ServeOptions& o) {
  add_count(command,
            "--max-model-len",
            o.max_model_len,
            "Context in tokens, prompt and output. Default: the model's",
            {2, INT32_MAX});
  add_count(
      command, "--max-num-seqs", o.max_num_seqs, "Sequences in one step. Default: 256", {1, 65536});
  add_count(command,
            "--max-num-batched-tokens",
            o.max_num_batched_tokens,
            "Tokens in one step. Default: 2048",
            {1, 1 << 20});
  add_count(
      command,
      "--kv-cache-memory-bytes",
      o.kv_cache_memory_bytes,
      "KV pool. Default: what --max-num-seqs sequences need, at most a quarter of the free memory",
      {1, INT64_MAX});
  add_swap_options(command, o);
  add_count(command,
            "--mla-expand-from",
            o.mla_expand_from,
            "Prompts of at least so many tokens compute MLA in the expanded form; 0 = never. "
            "Default: 512",
            {0, 1 << 24});
  add_count(command,
            "--max-num-queued-reqs",
            o.max_num_queued_reqs,
            "Requests that wait for the engine; further ones get 503. Default: 4096",
            {1, 1 << 20});
  add_count(command,
            "--long-prefill-token-threshold",
            o.long_prefill_token_threshold,
            "Most prompt tokens of one request in a step; 0 = no such limit. Default: 0",
            {0, 1 << 20});
  command.add_flag("--enable-prefix-caching,!--no-enable-prefix-caching",
                   o.enable_prefix_caching,
                   "Share the KV of equal prompt beginnings");
}

// A list that may be given as JSON, or word by word with the flag before each; replaces the
// default.
void add_string_list(CLI::App& command,
                     const char* name,
                     std::vector<std::string>& target,
                     const char* help) {
  const auto parse = [&target, name](const std::vector<std::string>& words) {
    std::vector<std::string> all;
    for (const std::string& word : words) {
      auto list = parse_string_list(word);
      if (!list) throw CLI::ValidationError(name, list.error().message);
      all.insert(all.end(), list->begin(), list->end());
    }
    target = std::move(all);
  };
  // One value each time: else CLI11 would cut JSON at its commas.
  command.add_option_function<std::vector<std::string>>(name, parse, help)->allow_extra_args(false);
}

// A key must be able to stand in a header. The message does not repeat it.
std::string check_api_key(const std::string& key) {
  const bool visible =
      std::all_of(key.begin(), key.end(), [](char c) { return c > 32 && c < 127; });
  return !key.empty() && visible ? std::string()
                                 : "must be one or more visible ASCII characters, without blanks";
}

void add_access_options(CLI::App& command, ServeOptions& o) {
  command
      .add_option(
          "--api-key",
          o.api_keys,
          "A key that clients must show; may be given several times. Default: none, open to all")
      ->envname("TANDEM_API_KEY")
      ->allow_extra_args(false)
      ->check(CLI::Validator(check_api_key, "KEY"));
  command.add_flag("--metrics-open", o.metrics_open, "/metrics needs no key");
  add_string_list(command,
                  "--allowed-origins",
                  o.allowed_origins,
                  "CORS: origins of pages that may ask, as a JSON list or words. Default: [\"*\"]");
  add_string_list(
      command, "--allowed-methods", o.allowed_methods, "CORS: methods. Default: [\"*\"]");
  add_string_list(
      command, "--allowed-headers", o.allowed_headers, "CORS: headers. Default: [\"*\"]");
  command.add_flag("--allow-credentials", o.allow_credentials, "CORS: pages may send credentials");
}

void add_server_options(CLI::App& command, ServeOptions& o) {
  command.add_option("--host", o.host, "Address to listen on")
      ->envname("TANDEM_HOST")
      ->capture_default_str();
  command.add_option("--port", o.port, "Port to listen on; 0 = any free one")
      ->check(CLI::Range(0, 65535))
      ->envname("TANDEM_PORT")
      ->capture_default_str();
  command
      .add_option("--shutdown-timeout",
                  o.shutdown_timeout_s,
                  "Seconds that running requests get after SIGTERM")
      ->check(CLI::Range(0, 86400))
      ->capture_default_str();
  command
      .add_option("--engine-iteration-timeout",
                  o.engine_iteration_timeout_s,
                  "Seconds that a step of the engine may take before /health turns to 503")
      ->check(CLI::Range(1, 86400))
      ->capture_default_str();
  command
      .add_option("--reasoning-parser",
                  o.reasoning_parser,
                  "Splits thinking off a chat's answer. auto: if the model has <think> and "
                  "</think>; none: never; deepseek_r1: it thinks even if its template does not ask")
      ->check(CLI::IsMember({"auto", "none", "deepseek_r1", "deepseek_v3", "qwen3"}))
      ->capture_default_str();
  command.add_flag(
      "--enable-prompt-tokens-details", o.enable_prompt_tokens_details, "cached_tokens in usage");
  command.add_flag(
      "--enable-request-id-headers", o.enable_request_id_headers, "Answer with x-request-id");
  command.add_option("--log-level", o.log_level, "Lines from this level on")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}))
      ->capture_default_str();
  command.add_flag("--log-json", o.log_json, "One JSON object a line");
}

}  // namespace

void add_serve_options(CLI::App& command, ServeOptions& options) {
  add_model_options(command, options);
  add_server_options(command, options);
  add_access_options(command, options);
  add_device_options(command, options);
  add_engine_options(command, options);
}

Expected<std::vector<std::string>> parse_string_list(const std::string& text) {
  if (!text.starts_with('[')) return std::vector<std::string>{text};
  const auto json = parse_json(text);
  const bool strings =
      json && json->is_array() &&
      std::all_of(json->begin(), json->end(), [](const Json& entry) { return entry.is_string(); });
  if (!strings) {
    return fail(
        ErrorCode::kInvalidArgument, "must be a JSON list of strings or a word, found '{}'", text);
  }
  return json->get<std::vector<std::string>>();
}

Expected<int64_t> parse_gib(const std::string& text) {
  constexpr double kMostGib = 1 << 20;
  double gib = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, gib);
  // The comparison is false for NaN.
  if (error != std::errc() || rest != end || !(gib >= 0 && gib <= kMostGib)) {
    return fail(ErrorCode::kInvalidArgument,
                "must be a number of GiB from 0 to {}, found '{}'",
                static_cast<int64_t>(kMostGib),
                text);
  }
  return static_cast<int64_t>(std::floor(std::ldexp(gib, 30)));
}

Expected<int64_t> parse_count(const std::string& text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  int64_t factor = 0;
  if (error == std::errc() && rest == end) factor = 1;
  if (error == std::errc() && end - rest == 1) {
    switch (*rest) {
      case 'k':
        factor = 1'000;
        break;
      case 'K':
        factor = 1 << 10;
        break;
      case 'm':
        factor = 1'000'000;
        break;
      case 'M':
        factor = 1 << 20;
        break;
      case 'g':
        factor = 1'000'000'000;
        break;
      case 'G':
        factor = 1 << 30;
        break;
      default:
        break;
    }
  }
  if (factor == 0 || value > INT64_MAX / factor || value < INT64_MIN / factor) {
    return fail(ErrorCode::kInvalidArgument, "'{}' is no integer", text);
  }
  return value * factor;
}

}  // namespace tandem::app
