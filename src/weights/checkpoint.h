#pragma once
// A folder of published weights: model.safetensors, or the shards that
// model.safetensors.index.json names. Files are mapped, not read.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "system/mapped_file.h"
#include "weights/tensor_source.h"

namespace tandem::weights {

class Checkpoint final : public TensorSource {
 public:
  // Opens and checks every file. As Hugging Face does, one model.safetensors is preferred to an
  // index. Errors: kNotFound (no weights; shards that the index names, listed), kCorruptData (an
  // index that does not agree with its shards; a file that contradicts itself).
  static Expected<Checkpoint> open(const std::string& directory);

  Checkpoint(Checkpoint&&) noexcept = default;
  Checkpoint& operator=(Checkpoint&&) noexcept = default;

  std::optional<TensorInfo> find(std::string_view name) const override;
  std::vector<std::string_view> names() const override;
  Expected<tensor::TensorView> read(std::string_view name, Scratch& scratch) const override;
  void release(const tensor::TensorView& view) const override;

  size_t file_bytes() const;
  size_t files() const { return files_.size(); }

 private:
  struct Entry {
    tensor::TensorView view;
    size_t file = 0;
  };

  Checkpoint() = default;
  Expected<void> add_file(const std::string& path);
  Expected<void> check_index(const std::map<std::string, std::string>& index) const;

  std::vector<system::MappedFile> files_;
  std::vector<std::string> file_names_;
  std::map<std::string, Entry, std::less<>> tensors_;
};

}  // namespace tandem::weights
