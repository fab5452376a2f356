#pragma once
// Flags of `tandem serve`: names and defaults as vLLM's where it has them.

#include <CLI/App.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace tandem::app {

struct ServeOptions {
  std::string model;  // folder; empty = the bundled model
  std::string host = "127.0.0.1";
  int port = 8000;
  std::vector<std::string> served_model_names;

  std::string dtype = "auto";
  std::string device = "auto";
  std::string moe_device;  // empty = as `device`
  std::string load_format = "auto";
  std::string generation_config = "auto";
  std::string instruction_set = "auto";
  int cpu_threads = 0;  // 0 = what the affinity mask and the CPU quota allow

  std::optional<int64_t> max_model_len;
  int64_t max_num_seqs = 256;
  int64_t max_num_batched_tokens = 2048;
  std::optional<int64_t> kv_cache_memory_bytes;
  int64_t swap_space_bytes = 0;  // --swap-space, given in GiB; 0 = no host tier
  std::string preemption_mode = "auto";
  int64_t mla_expand_from = 512;  // prompt tokens; 0 = never
  int64_t long_prefill_token_threshold = 0;
  int64_t max_num_queued_reqs = 4096;
  bool enable_prefix_caching = true;

  std::vector<std::string> api_keys;  // none: everybody may ask
  bool metrics_open = false;          // /metrics without a key
  std::vector<std::string> allowed_origins = {"*"};
  std::vector<std::string> allowed_methods = {"*"};
  std::vector<std::string> allowed_headers = {"*"};
  bool allow_credentials = false;
  std::string reasoning_parser = "auto";
  int engine_iteration_timeout_s = 120;  // a step that takes longer makes /health fail
  int shutdown_timeout_s = 30;
  bool enable_prompt_tokens_details = false;
  bool enable_request_id_headers = false;
  std::string log_level = "info";
  bool log_json = false;
};

// Declares the flags on `command`, bound to `options`, which outlives parsing.
void add_serve_options(CLI::App& command, ServeOptions& options);

// "4096", "8k" (thousands), "8K" (1024s), "2m", "2M", "1g", "1G": vLLM's integers with suffixes.
Expected<int64_t> parse_count(const std::string& text);

// What `--allowed-origins` and its like take: a JSON list of strings, as in vLLM, or one string.
Expected<std::vector<std::string>> parse_string_list(const std::string& text);

// "4", "0.5", "1e-3": GiB, as bytes, rounded down; 0 to 1 Mi GiB.
Expected<int64_t> parse_gib(const std::string& text);

}  // namespace tandem::app
