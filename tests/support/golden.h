#pragma once
// For tests: a golden checkpoint and what is expected of it (tests/golden/README.md). Core folders
// stand in tests/golden; the others are read from "../shared" beside the checkout, or from
// $TANDEM_SHARED_DIR, and their tests skip when they are not there.

#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "system/files.h"
#include "system/mapped_file.h"
#include "weights/safetensors.h"

namespace tandem::testing {

inline std::string shared_directory() {
  const char* given = std::getenv("TANDEM_SHARED_DIR");
  return given ? given : std::string(TANDEM_SOURCE_DIR) + "/../shared";
}

// The folder of a golden checkpoint, if it is on this machine.
inline std::optional<std::string> golden_checkpoint(const std::string& name) {
  for (const std::string& root :
       {std::string(TANDEM_SOURCE_DIR) + "/tests/golden", shared_directory() + "/golden"}) {
    const std::string path = root + "/checkpoints/" + name;
    if (system::is_regular_file(path + "/config.json")) return path;
  }
  return std::nullopt;
}

struct GoldenPrompt {
  std::string name;
  std::vector<int32_t> ids;
  std::vector<int32_t> greedy;
  std::vector<float> gap;  // first to second logit, by greedy step
};

class GoldenExpectation {
 public:
  // The files are part of the tests: whatever is wrong with them ends the program.
  explicit GoldenExpectation(const std::string& directory)
      : file_(open(directory + "/expected.safetensors")) {
    const auto text = system::read_text_file(directory + "/expected.json", 16u << 20);
    TANDEM_CHECK(text.has_value(), "expected.json cannot be read");
    const Json json = parse_json(*text).value();
    for (const Json& prompt : json.at("prompts")) {
      prompts_.push_back({prompt.at("name").get<std::string>(),
                          prompt.at("ids").get<std::vector<int32_t>>(),
                          prompt.at("greedy").at("ids").get<std::vector<int32_t>>(),
                          prompt.at("greedy").at("gap").get<std::vector<float>>()});
    }
    const auto tensors = weights::parse_safetensors(file_.bytes(), "expected.safetensors");
    TANDEM_CHECK(tensors.has_value(), "expected.safetensors is not what it should be");
    for (const weights::NamedTensor& tensor : *tensors) {
      tensors_[tensor.name] = tensor.view;
    }
  }

  const std::vector<GoldenPrompt>& prompts() const { return prompts_; }
  const tensor::TensorView* find(const std::string& name) const {
    const auto it = tensors_.find(name);
    return it == tensors_.end() ? nullptr : &it->second;
  }

 private:
  static system::MappedFile open(const std::string& path) {
    auto file = system::MappedFile::open(path);
    TANDEM_CHECK(file.has_value(), "expected.safetensors cannot be read");
    return std::move(*file);
  }

  system::MappedFile file_;
  std::vector<GoldenPrompt> prompts_;
  std::map<std::string, tensor::TensorView> tensors_;
};

}  // namespace tandem::testing
