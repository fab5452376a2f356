#include "weights/checkpoint.h"

#include <fmt/format.h>

#include <cstring>
#include <set>
#include <utility>

#include "base/json.h"
#include "base/log.h"
#include "system/files.h"
#include "weights/safetensors.h"

namespace tandem::weights {
namespace {

constexpr std::string_view kSingleFile = "model.safetensors";
constexpr std::string_view kIndexFile = "model.safetensors.index.json";
// DeepSeek-V3's index has 9 MB.
constexpr size_t kMaxIndexBytes = 256u << 20;
constexpr size_t kMaxShards = 10'000;

using Index = std::map<std::string, std::string>;  // tensor -> file name

// A name in this folder: nothing that leads out of it.
bool is_plain_file_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

Expected<Index> read_index(const std::string& path) {
  TANDEM_ASSIGN(const std::string text, system::read_text_file(path, kMaxIndexBytes));
  const auto json = parse_json(text, 8);
  if (!json) return fail(ErrorCode::kCorruptData, "file '{}': {}", path, json.error().message);
  const auto map = json->is_object() ? json->find("weight_map") : json->end();
  if (!json->is_object() || map == json->end() || !map->is_object()) {
    return fail(ErrorCode::kCorruptData, "file '{}': 'weight_map' must be an object", path);
  }
  Index index;
  for (const auto& [name, file] : map->items()) {
    if (!file.is_string() || !is_plain_file_name(file.get_ref<const std::string&>())) {
      return fail(ErrorCode::kCorruptData,
                  "file '{}': tensor '{}' must be mapped to the name of a file beside it",
                  path,
                  log_safe(name));
    }
    index.emplace(name, file.get<std::string>());
  }
  if (index.empty()) return fail(ErrorCode::kCorruptData, "file '{}' lists no tensors", path);
  return index;
}

// Every shard is there, or one line that names those that are not.
Expected<void> check_shards_exist(const std::string& directory, const Index& index) {
  std::map<std::string, size_t> missing;
  for (const auto& [tensor, file] : index) {
    const auto it = missing.find(file);
    if (it != missing.end()) {
      ++it->second;
    } else if (!system::is_regular_file(directory + "/" + file)) {
      missing[file] = 1;
    }
  }
  if (missing.empty()) return {};
  std::string list;
  size_t tensors = 0;
  size_t listed = 0;
  for (const auto& [file, count] : missing) {
    tensors += count;
    if (listed < 3) list += fmt::format("{}'{}'", listed ? ", " : "", log_safe(file));
    if (listed++ == 3) list += ", …";
  }
  return fail(
      Error{ErrorCode::kNotFound,
            fmt::format("{} of the files that '{}/{}' names are missing, with {} tensors: {}",
                        missing.size(),
                        directory,
                        kIndexFile,
                        tensors,
                        list),
            "download the model again"});
}

}  // namespace

Expected<Checkpoint> Checkpoint::open(const std::string& directory) {
  Checkpoint checkpoint;
  const std::string single = directory + "/" + std::string(kSingleFile);
  const std::string index_path = directory + "/" + std::string(kIndexFile);
  if (system::is_regular_file(single)) {
    TANDEM_TRY(checkpoint.add_file(single));
    return checkpoint;
  }
  if (!system::is_regular_file(index_path)) {
    return fail(
        Error{ErrorCode::kNotFound,
              fmt::format("'{}' holds neither {} nor {}", directory, kSingleFile, kIndexFile),
              "give a folder with safetensors weights, or --load-format dummy"});
  }
  TANDEM_ASSIGN(const Index index, read_index(index_path));
  TANDEM_TRY(check_shards_exist(directory, index));
  std::set<std::string> shards;
  for (const auto& [tensor, file] : index) shards.insert(file);
  if (shards.size() > kMaxShards) {
    return fail(ErrorCode::kCorruptData,
                "file '{}' names {} files, at most {} are accepted",
                index_path,
                shards.size(),
                kMaxShards);
  }
  for (const std::string& shard : shards) TANDEM_TRY(checkpoint.add_file(directory + "/" + shard));
  TANDEM_TRY(checkpoint.check_index(index));
  return checkpoint;
}

Expected<void> Checkpoint::add_file(const std::string& path) {
  TANDEM_ASSIGN(system::MappedFile file, system::MappedFile::open(path));
  TANDEM_ASSIGN(std::vector<NamedTensor> tensors, parse_safetensors(file.bytes(), path));
  for (NamedTensor& tensor : tensors) {
    const auto [it, inserted] =
        tensors_.try_emplace(std::move(tensor.name), Entry{tensor.view, files_.size()});
    if (!inserted) {
      return fail(ErrorCode::kCorruptData,
                  "tensor '{}' stands in two files: '{}' and '{}'",
                  log_safe(it->first),
                  file_names_[it->second.file],
                  path);
    }
  }
  files_.push_back(std::move(file));
  file_names_.push_back(path);
  return {};
}

Expected<void> Checkpoint::check_index(const std::map<std::string, std::string>& index) const {
  const auto base_name = [](std::string_view path) { return path.substr(path.rfind('/') + 1); };
  for (const auto& [name, file] : index) {
    const auto it = tensors_.find(name);
    if (it == tensors_.end() || base_name(file_names_[it->second.file]) != file) {
      return fail(ErrorCode::kCorruptData,
                  "{} puts tensor '{}' into '{}', which does not hold it{}",
                  kIndexFile,
                  log_safe(name),
                  file,
                  it == tensors_.end() ? "" : " (another file does)");
    }
  }
  for (const auto& [name, entry] : tensors_) {
    if (!index.contains(name)) {
      return fail(ErrorCode::kCorruptData,
                  "file '{}' holds tensor '{}', which {} does not know",
                  file_names_[entry.file],
                  log_safe(name),
                  kIndexFile);
    }
  }
  return {};
}

std::optional<TensorInfo> Checkpoint::find(std::string_view name) const {
  const auto it = tensors_.find(name);
  if (it == tensors_.end()) return std::nullopt;
  const Entry& entry = it->second;
  return TensorInfo{entry.view.dtype, entry.view.shape, file_names_[entry.file]};
}

std::vector<std::string_view> Checkpoint::names() const {
  std::vector<std::string_view> names;
  names.reserve(tensors_.size());
  for (const auto& [name, entry] : tensors_) names.push_back(name);
  return names;
}

Expected<tensor::TensorView> Checkpoint::read(std::string_view name, Scratch& scratch) const {
  const auto it = tensors_.find(name);
  if (it == tensors_.end()) {
    return fail(ErrorCode::kNotFound, "tensor '{}' is not in the checkpoint", log_safe(name));
  }
  const Entry& entry = it->second;
  TANDEM_TRY(files_[entry.file].check_unchanged());
  tensor::TensorView view = entry.view;
  if (reinterpret_cast<uintptr_t>(view.data) % tensor::size_of(view.dtype) != 0) {
    // Allowed by the format, where a writer did not pad its header.
    scratch.resize(view.bytes());
    std::memcpy(scratch.data(), view.data, view.bytes());
    view.data = scratch.data();
  }
  return view;
}

void Checkpoint::release(const tensor::TensorView& view) const {
  const auto* data = static_cast<const std::byte*>(view.data);
  for (const system::MappedFile& file : files_) {
    const std::span<const std::byte> bytes = file.bytes();
    if (data < bytes.data() || data >= bytes.data() + bytes.size()) continue;
    file.advise(
        system::FileAdvice::kDontNeed, static_cast<uint64_t>(data - bytes.data()), view.bytes());
    return;
  }
}

size_t Checkpoint::file_bytes() const {
  size_t bytes = 0;
  for (const system::MappedFile& file : files_) bytes += file.bytes().size();
  return bytes;
}

}  // namespace tandem::weights
