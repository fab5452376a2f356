#include "app/startup_table.h"

#include <fmt/format.h>

#include <array>

#include "kernels/operators.h"

namespace tandem::app {

std::string human_bytes(double bytes) {
  static constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", bytes, unit == 0 || bytes >= 100 ? 0 : 1, kUnits[unit]);
}

std::string startup_table(const StartupFacts& f) {
  std::string out;
  const auto line = [&out](const char* name, const std::string& value) {
    out += fmt::format("  {:<16} {}\n", name, value);
  };
  out += fmt::format("\ntandem is ready ({:.2f} s)\n", f.seconds_to_ready);
  line("model",
       fmt::format("{} ({}, {} layers) from {}",
                   f.model_name,
                   f.spec->architecture,
                   f.spec->layers.size(),
                   f.model_path));
  line("file", human_bytes(static_cast<double>(f.file_bytes)));
  for (size_t i = 0; i < f.device_names.size(); ++i) {
    line(i == 0 ? "weights" : "",
         fmt::format(
             "{} on {}", human_bytes(static_cast<double>(f.weight_bytes[i])), f.device_names[i]));
  }
  line("workspace", human_bytes(static_cast<double>(f.workspace_bytes)));
  const int64_t tokens = f.kv_blocks * kernels::kBlockTokens;
  line("KV cache",
       fmt::format("{} blocks = {} tokens, {} ({} B a token)",
                   f.kv_blocks,
                   tokens,
                   human_bytes(static_cast<double>(tokens * f.kv_bytes_per_token)),
                   f.kv_bytes_per_token));
  if (f.host_blocks > 0) {
    const int64_t host_tokens = f.host_blocks * kernels::kBlockTokens;
    line("swap space",
         fmt::format("{} blocks = {} tokens, {} of host memory",
                     f.host_blocks,
                     host_tokens,
                     human_bytes(static_cast<double>(host_tokens * f.kv_bytes_per_token))));
  }
  line("context",
       fmt::format("{} tokens; {} sequences and {} tokens a step",
                   f.max_model_len,
                   f.max_num_seqs,
                   f.max_num_batched_tokens));
  line("arithmetic", f.arithmetic);
  line("instruction set", f.instruction_set);
  line("threads", fmt::format("{}", f.threads));
  const std::string host = f.host.find(':') == std::string::npos ? f.host : "[" + f.host + "]";
  const std::string address = fmt::format("http://{}:{}", host, f.port);
  line("address", address);
  out += fmt::format(
      "\nTry it:\n  curl {}/v1/chat/completions -H 'content-type: application/json' \\\n"
      "    -d '{{\"model\": \"{}\", \"messages\": [{{\"role\": \"user\", \"content\": "
      "\"Hello!\"}}]}}'\n"
      "Docs: README.md and docs/. Ctrl-C stops.\n\n",
      address,
      f.model_name);
  return out;
}

}  // namespace tandem::app
