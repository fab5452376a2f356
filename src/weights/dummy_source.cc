#include "weights/dummy_source.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>

#include "quant/scalar.h"

namespace tandem::weights {
namespace {

using tensor::DType;

// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014) as a hash of a counter: eight random bytes.
constexpr uint64_t mix(uint64_t key, uint64_t counter) {
  uint64_t z = key + (counter + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

// FNV-1a, so that every tensor has numbers of its own.
constexpr uint64_t hash_name(std::string_view name, uint64_t seed) {
  uint64_t hash = 0xCBF29CE484222325u ^ (seed * 0x9E3779B97F4A7C15u);
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3u;
  return hash;
}

// Root mean square of an e4m3 value whose exponent's high bit is 0 and whose other bits are
// random: about 0.6 (eight binades below 2, mean square 1/8 * 4/3 * 2.13).
constexpr double kE4m3Rms = 0.6;

// element(i) for every i, four random 16-bit words a hash.
template <class Store>
void fill_uniform(uint64_t key, int64_t count, float amplitude, float offset, Store store) {
  for (int64_t i = 0; i < count; i += 4) {
    uint64_t word = mix(key, static_cast<uint64_t>(i / 4));
    for (int64_t j = i; j < std::min(i + 4, count); ++j, word >>= 16) {
      const auto random = static_cast<int16_t>(word & 0xFFFFu);
      store(j, offset + amplitude * (static_cast<float>(random) + 0.5f) / 32768.0f);
    }
  }
}

void fill_e4m3(uint64_t key, int64_t count, std::byte* out) {
  for (int64_t i = 0; i < count; i += 8) {
    const uint64_t word = mix(key, static_cast<uint64_t>(i / 8)) & 0xBFBFBFBFBFBFBFBFu;
    std::memcpy(out + i, &word, static_cast<size_t>(std::min<int64_t>(8, count - i)));
  }
}

}  // namespace

DummySource::DummySource(const std::vector<LoadItem>& items, const DummyConfig& config)
    : seed_(config.seed) {
  for (const LoadItem& item : items) {
    for (const LoadPart& part : item.parts) {
      Entry entry;
      entry.dtype = config.dtype;
      if (item.kind == LoadKind::kVector) {
        entry.shape = {part.tensor_rows};
        entry.fill = part.tensor.find("bias") == std::string::npos ? Fill::kNorm : Fill::kBias;
      } else {
        entry.shape = {part.tensor_rows, part.k};
        entry.fill = item.kind == LoadKind::kTable ? Fill::kTable : Fill::kLinear;
        entry.k = part.k;
      }
      if (config.fp8_blocks && part.quantized) {
        entry.dtype = DType::kF8E4M3;
        Entry scale;
        scale.shape = {(part.tensor_rows + 127) / 128, (part.k + 127) / 128};
        scale.fill = Fill::kScale;
        scale.k = part.k;
        entries_.emplace(part.tensor + "_scale_inv", scale);
      }
      entries_.emplace(part.tensor, entry);
    }
  }
}

std::optional<TensorInfo> DummySource::find(std::string_view name) const {
  const auto it = entries_.find(name);
  if (it == entries_.end()) return std::nullopt;
  return TensorInfo{it->second.dtype, it->second.shape, "(random weights)"};
}

std::vector<std::string_view> DummySource::names() const {
  std::vector<std::string_view> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

void DummySource::generate(const Entry& entry, uint64_t key, std::byte* out) const {
  const int64_t count = entry.shape.elements();
  float amplitude = 0;
  float offset = 0;
  switch (entry.fill) {
    case Fill::kLinear:
      if (entry.dtype == DType::kF8E4M3) return fill_e4m3(key, count, out);
      amplitude = static_cast<float>(std::sqrt(3.0 / static_cast<double>(entry.k)));
      break;
    case Fill::kTable:
      amplitude = 1.0f;
      break;
    case Fill::kNorm:
      offset = 1.0f;
      break;
    case Fill::kBias:
      amplitude = 0.01f;
      break;
    case Fill::kScale:
      offset = static_cast<float>(1.0 / (kE4m3Rms * std::sqrt(static_cast<double>(entry.k))));
      break;
  }
  const auto store = [&](auto convert) {
    using Value = decltype(convert(0.0f));
    fill_uniform(key, count, amplitude, offset, [&](int64_t i, float value) {
      const Value converted = convert(value);
      std::memcpy(out + i * static_cast<int64_t>(sizeof(Value)), &converted, sizeof(Value));
    });
  };
  if (entry.dtype == DType::kF32) return store([](float value) { return value; });
  if (entry.dtype == DType::kF16) return store(quant::float_to_f16);
  store(quant::float_to_bf16);
}

Expected<tensor::TensorView> DummySource::read(std::string_view name, Scratch& scratch) const {
  const auto it = entries_.find(name);
  if (it == entries_.end()) return fail(ErrorCode::kNotFound, "tensor '{}' is not planned", name);
  tensor::TensorView view{nullptr, it->second.dtype, it->second.shape};
  scratch.resize(view.bytes());
  generate(it->second, hash_name(name, seed_), scratch.data());
  view.data = scratch.data();
  return view;
}

}  // namespace tandem::weights
