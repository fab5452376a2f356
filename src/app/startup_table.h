#pragma once
// What is printed when the server is ready: what runs, where its bytes are, how to talk to it.

#include <cstdint>
#include <string>
#include <vector>

#include "model/model_spec.h"

namespace tandem::app {

struct StartupFacts {
  std::string model_name;
  std::string model_path;
  const model::ModelSpec* spec = nullptr;
  size_t file_bytes = 0;
  std::vector<std::string> device_names;  // with their weight bytes beside
  std::vector<size_t> weight_bytes;       // by device
  size_t workspace_bytes = 0;
  int64_t kv_blocks = 0;
  int64_t host_blocks = 0;
  int64_t kv_bytes_per_token = 0;
  int64_t max_model_len = 0;
  int64_t max_num_seqs = 0;
  int64_t max_num_batched_tokens = 0;
  std::string arithmetic;
  std::string instruction_set;
  int threads = 0;
  std::string host;
  int port = 0;
  double seconds_to_ready = 0;
};

// Several lines, the last of them a curl command.
std::string startup_table(const StartupFacts& facts);

// "19.7 MiB", "671 GiB".
std::string human_bytes(double bytes);

}  // namespace tandem::app
