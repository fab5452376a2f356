#include "weights/safetensors.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "base/json.h"
#include "base/log.h"

namespace tandem::weights {
namespace {

using tensor::DType;
using tensor::Shape;

constexpr size_t kLengthBytes = 8;
// Header, a tensor's object, its shape and one level for "__metadata__" of careless writers.
constexpr int kHeaderJsonDepth = 8;

struct DTypeName {
  std::string_view name;
  DType type;
};
constexpr DTypeName kDTypes[] = {
    {"F64", DType::kF64},
    {"F32", DType::kF32},
    {"F16", DType::kF16},
    {"BF16", DType::kBF16},
    {"F8_E4M3", DType::kF8E4M3},
    {"F8_E5M2", DType::kF8E5M2},
    {"I64", DType::kI64},
    {"I32", DType::kI32},
    {"I16", DType::kI16},
    {"I8", DType::kI8},
    {"U8", DType::kU8},
    {"BOOL", DType::kBool},
};

std::optional<DType> parse_dtype(std::string_view name) {
  for (const DTypeName& entry : kDTypes) {
    if (entry.name == name) return entry.type;
  }
  return std::nullopt;
}

// Finds a key that stands twice at the top level: nlohmann keeps the last one silently. A handler
// of parse events, since the parser's callback variant looks through all siblings at each object's
// end, which takes minutes for a header of 100,000 tensors.
class DuplicateKeyFinder : public nlohmann::json_sax<Json> {
 public:
  const std::optional<std::string>& duplicate() const { return duplicate_; }

  bool key(string_t& name) override {
    if (depth_ == 1 && !seen_.insert(name).second) duplicate_ = name;
    return !duplicate_;
  }
  bool start_object(size_t) override { return ++depth_ > 0; }
  bool end_object() override { return --depth_ >= 0; }
  bool start_array(size_t) override { return ++depth_ > 0; }
  bool end_array() override { return --depth_ >= 0; }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception&) override {
    return false;
  }

 private:
  int depth_ = 0;
  std::unordered_set<std::string> seen_;
  std::optional<std::string> duplicate_;
};

// `text` has been parsed before, so it is valid.
std::optional<std::string> find_duplicate_key(std::string_view text) {
  DuplicateKeyFinder finder;
  [[maybe_unused]] const bool whole = Json::sax_parse(text, &finder);
  return finder.duplicate();
}

struct Range {
  uint64_t begin = 0;
  uint64_t end = 0;
};

// One entry of the header, with what its errors must name.
class EntryReader {
 public:
  EntryReader(std::string_view file, const std::string& name, const Json& entry)
      : file_(file), name_(name), entry_(entry) {}

  Expected<DType> dtype() const {
    const auto it = entry_.find("dtype");
    if (it == entry_.end() || !it->is_string()) return corrupt("'dtype' must be a string");
    const auto& text = it->get_ref<const std::string&>();
    const auto type = parse_dtype(text);
    if (!type) {
      return fail(ErrorCode::kUnsupported,
                  "file '{}': tensor '{}': dtype '{}' is not supported",
                  file_,
                  log_safe(name_),
                  log_safe(text));
    }
    return *type;
  }

  // At most kMaxRank extents whose product, in bytes, fits.
  Expected<Shape> shape(DType type) const {
    const auto it = entry_.find("shape");
    if (it == entry_.end() || !it->is_array()) return corrupt("'shape' must be a list");
    if (it->size() > tensor::kMaxRank) {
      return fail(ErrorCode::kUnsupported,
                  "file '{}': tensor '{}' has {} dimensions, at most {} are supported",
                  file_,
                  log_safe(name_),
                  it->size(),
                  tensor::kMaxRank);
    }
    Shape shape;
    int64_t bytes = static_cast<int64_t>(tensor::size_of(type));
    for (const Json& extent : *it) {
      if (!extent.is_number_unsigned() || extent.get<uint64_t>() > INT64_MAX) {
        return corrupt("'shape' must hold whole numbers from 0 on");
      }
      const auto value = static_cast<int64_t>(extent.get<uint64_t>());
      shape.extent[shape.rank++] = value;
      if (__builtin_mul_overflow(bytes, value, &bytes)) return corrupt("the shape overflows");
    }
    return shape;
  }

  Expected<Range> range(uint64_t data_bytes) const {
    const auto it = entry_.find("data_offsets");
    if (it == entry_.end() || !it->is_array() || it->size() != 2 ||
        !(*it)[0].is_number_unsigned() || !(*it)[1].is_number_unsigned()) {
      return corrupt("'data_offsets' must be two whole numbers");
    }
    const Range range{(*it)[0].get<uint64_t>(), (*it)[1].get<uint64_t>()};
    if (range.begin > range.end || range.end > data_bytes) {
      return fail(ErrorCode::kCorruptData,
                  "file '{}': tensor '{}' wants data bytes [{}, {}), the file holds {}",
                  file_,
                  log_safe(name_),
                  range.begin,
                  range.end,
                  data_bytes);
    }
    return range;
  }

 private:
  std::unexpected<Error> corrupt(std::string_view what) const {
    return fail(
        ErrorCode::kCorruptData, "file '{}': tensor '{}': {}", file_, log_safe(name_), what);
  }

  std::string_view file_;
  const std::string& name_;
  const Json& entry_;
};

struct Entry {
  NamedTensor tensor;
  Range range;
};

Expected<Entry> read_entry(std::string_view file,
                           const std::string& name,
                           const Json& json,
                           std::span<const std::byte> data) {
  if (!json.is_object()) {
    return fail(ErrorCode::kCorruptData,
                "file '{}': tensor '{}' must be an object in the header",
                file,
                log_safe(name));
  }
  const EntryReader reader(file, name, json);
  Entry entry;
  entry.tensor.name = name;
  TANDEM_ASSIGN(entry.tensor.view.dtype, reader.dtype());
  TANDEM_ASSIGN(entry.tensor.view.shape, reader.shape(entry.tensor.view.dtype));
  TANDEM_ASSIGN(entry.range, reader.range(data.size()));
  const uint64_t found = entry.range.end - entry.range.begin;
  if (found != entry.tensor.view.bytes()) {
    return fail(ErrorCode::kCorruptData,
                "file '{}': tensor '{}': its shape and dtype want {} bytes, its offsets give {}",
                file,
                log_safe(name),
                entry.tensor.view.bytes(),
                found);
  }
  entry.tensor.view.data = data.data() + entry.range.begin;
  return entry;
}

// Ranges in order of their bytes, each starting where the one before ends.
Expected<void> check_layout(const std::vector<Entry>& entries,
                            uint64_t data_bytes,
                            std::string_view file) {
  uint64_t expected = 0;
  for (const Entry& entry : entries) {
    if (entry.range.begin != expected) {
      return fail(ErrorCode::kCorruptData,
                  "file '{}': tensor '{}' begins at data byte {}, wanted {} (the ranges {})",
                  file,
                  log_safe(entry.tensor.name),
                  entry.range.begin,
                  expected,
                  entry.range.begin < expected ? "overlap" : "leave a hole");
    }
    expected = entry.range.end;
  }
  if (expected != data_bytes) {
    return fail(ErrorCode::kCorruptData,
                "file '{}': its tensors take {} data bytes, the file holds {}",
                file,
                expected,
                data_bytes);
  }
  return {};
}

Expected<Json> parse_header(std::string_view text, std::string_view file) {
  auto header = parse_json(text, kHeaderJsonDepth);
  if (!header) {
    return fail(
        ErrorCode::kCorruptData, "file '{}': its header is {}", file, header.error().message);
  }
  if (!header->is_object()) {
    return fail(ErrorCode::kCorruptData, "file '{}': its header is not a JSON object", file);
  }
  if (header->size() > kMaxTensorsPerFile) {
    return fail(ErrorCode::kCorruptData,
                "file '{}': its header lists {} tensors, at most {} are accepted",
                file,
                header->size(),
                kMaxTensorsPerFile);
  }
  if (const auto duplicate = find_duplicate_key(text)) {
    return fail(ErrorCode::kCorruptData,
                "file '{}': tensor '{}' stands twice in the header",
                file,
                log_safe(*duplicate));
  }
  return header;
}

}  // namespace

Expected<std::vector<NamedTensor>> parse_safetensors(std::span<const std::byte> file,
                                                     std::string_view file_name) {
  if (file.size() < kLengthBytes) {
    return fail(ErrorCode::kCorruptData,
                "file '{}' has {} bytes: too short for a safetensors file",
                file_name,
                file.size());
  }
  uint64_t header_bytes = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    header_bytes |= static_cast<uint64_t>(file[i]) << (8 * i);
  }
  const size_t limit = std::min(file.size() - kLengthBytes, kMaxSafetensorsHeaderBytes);
  if (header_bytes > limit) {
    return fail(ErrorCode::kCorruptData,
                "file '{}': its header claims {} bytes, at most {} are possible",
                file_name,
                header_bytes,
                limit);
  }
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + kLengthBytes,
                              header_bytes);
  TANDEM_ASSIGN(const Json header, parse_header(text, file_name));

  const std::span<const std::byte> data = file.subspan(kLengthBytes + header_bytes);
  std::vector<Entry> entries;
  entries.reserve(header.size());
  for (const auto& [name, json] : header.items()) {
    if (name == "__metadata__") continue;
    TANDEM_ASSIGN(Entry entry, read_entry(file_name, name, json, data));
    entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.range.begin, a.range.end, a.tensor.name) <
           std::tie(b.range.begin, b.range.end, b.tensor.name);
  });
  TANDEM_TRY(check_layout(entries, data.size(), file_name));

  std::vector<NamedTensor> tensors;
  tensors.reserve(entries.size());
  for (Entry& entry : entries) tensors.push_back(std::move(entry.tensor));
  return tensors;
}

}  // namespace tandem::weights
