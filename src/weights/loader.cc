#include "weights/loader.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "base/check.h"
#include "quant/scalar.h"
#include "weights/owned_stream.h"

namespace tandem::weights {
namespace {

using kernels::DeviceRef;
using kernels::WeightFormat;
using kernels::WeightSource;
using tensor::DType;
using tensor::TensorView;

// A GPU's copy engines and every vector type are content with this.
constexpr size_t kItemAlignment = 256;
// Dummy weights: what a worker keeps for its next tensor.
constexpr size_t kKeptScratchBytes = 256u << 20;

size_t align_up(size_t bytes) {
  return (bytes + kItemAlignment - 1) / kItemAlignment * kItemAlignment;
}

struct Target {
  std::byte* memory = nullptr;
};

// One buffer for each (device, group), items at 256-byte steps in it.
Expected<std::vector<Target>> allocate_groups(const std::vector<LoadItem>& items,
                                              std::span<const DeviceRef> devices,
                                              std::vector<tensor::Buffer>& buffers) {
  std::map<std::pair<DeviceIndex, int32_t>, size_t> bytes;
  std::vector<size_t> offsets;
  for (const LoadItem& item : items) {
    size_t& used = bytes[{item.device, item.group}];
    offsets.push_back(used);
    used += align_up(item.device_bytes);
  }
  std::map<std::pair<DeviceIndex, int32_t>, std::byte*> bases;
  for (const auto& [key, count] : bytes) {
    const DeviceRef device = devices[static_cast<size_t>(key.first)];
    TANDEM_ASSIGN(tensor::Buffer buffer,
                  tensor::Buffer::allocate(
                      device.device, device.api->memory, {.bytes = std::max<size_t>(count, 1)}));
    bases[key] = buffer.as<std::byte>();
    buffers.push_back(std::move(buffer));
  }
  std::vector<Target> targets;
  for (size_t i = 0; i < items.size(); ++i) {
    targets.push_back({bases[{items[i].device, items[i].group}] + offsets[i]});
  }
  return targets;
}

struct Job {
  const std::vector<LoadItem>& items;
  std::span<const DeviceRef> devices;
  const TensorSource& source;
  const LoadOptions& options;
  std::vector<Target> targets;
  std::vector<LoadedItem>& loaded;

  std::atomic<size_t> next{0};
  std::atomic<bool> stop{false};
  std::mutex mutex;  // guards what follows
  LoadProgress progress;
  std::optional<Error> error;
};

// One thread's part of the work. Streams and scratch are its own.
class Worker {
 public:
  explicit Worker(Job& job) : job_(job), streams_(job.devices.size()) {}

  void run() {
    for (;;) {
      const size_t index = job_.next.fetch_add(1, std::memory_order_relaxed);
      if (index >= job_.items.size() || job_.stop.load(std::memory_order_relaxed)) return;
      auto result = load_guarded(index);
      const std::lock_guard lock(job_.mutex);
      if (!result) {
        if (!job_.error) job_.error = std::move(result).error();
        job_.stop = true;
        return;
      }
      job_.progress.done_bytes += job_.items[index].source_bytes;
      if (job_.options.progress) job_.options.progress(job_.progress);
    }
  }

 private:
  Expected<void> load_guarded(size_t index) {
    try {
      return load_item(index);
    } catch (const std::bad_alloc&) {
      return fail(ErrorCode::kOutOfMemory,
                  "not enough memory to load tensor '{}'",
                  job_.items[index].parts[0].tensor);
    }
  }

  Expected<void> load_item(size_t index) {
    const LoadItem& item = job_.items[index];
    scratch_.resize(item.parts.size() * 2);
    opened_.clear();
    auto result = load_opened(item, job_.targets[index].memory, job_.loaded[index]);
    for (const TensorView& view : opened_) job_.source.release(view);
    for (Scratch& scratch : scratch_) {
      if (scratch.capacity() > kKeptScratchBytes) Scratch().swap(scratch);
    }
    if (!result) {
      result.error().message =
          fmt::format("tensor '{}': {}", item.parts[0].tensor, result.error().message);
    }
    return result;
  }

  Expected<void> load_opened(const LoadItem& item, std::byte* memory, LoadedItem& out) {
    std::vector<WeightSource> sources;
    for (size_t i = 0; i < item.parts.size(); ++i) {
      TANDEM_ASSIGN(WeightSource source, open_part(item.parts[i], i));
      sources.push_back(source);
    }
    const DeviceRef device = job_.devices[static_cast<size_t>(item.device)];
    switch (item.kind) {
      case LoadKind::kLinear:
        return tensor::to_expected(device.api->pack(device.device,
                                                    sources.data(),
                                                    static_cast<int32_t>(sources.size()),
                                                    item.pairing,
                                                    memory,
                                                    &out.linear));
      case LoadKind::kMla:
        TANDEM_CHECK(sources.size() == 1);
        return tensor::to_expected(device.api->pack_mla(
            device.device, sources.data(), &item.mla, item.mla_storage, memory, &out.mla));
      case LoadKind::kVector:
        return load_vector(item, sources, memory, out);
      case LoadKind::kTable:
        return load_table(item, sources, memory, out);
    }
    return {};
  }

  Expected<WeightSource> open_part(const LoadPart& part, size_t index) {
    TANDEM_ASSIGN(const TensorView view, job_.source.read(part.tensor, scratch_[index * 2]));
    opened_.push_back(view);
    const int64_t row_bytes =
        std::max<int64_t>(part.k, 1) * static_cast<int64_t>(tensor::size_of(view.dtype));
    WeightSource source{
        .format = part.format, .rows = part.rows, .k = part.k, .first_row = part.first_row};
    source.data = static_cast<const std::byte*>(view.data) + part.first_row * row_bytes;
    if (!part.scales.empty()) {
      TANDEM_ASSIGN(const TensorView scales,
                    job_.source.read(part.scales, scratch_[index * 2 + 1]));
      source.scales = scales.as<float>();
    }
    return source;
  }

  Expected<void> load_vector(const LoadItem& item,
                             const std::vector<WeightSource>& sources,
                             std::byte* memory,
                             LoadedItem& out) {
    std::vector<float> values;
    for (const WeightSource& source : sources) {
      const size_t begin = values.size();
      values.resize(begin + static_cast<size_t>(source.rows));
      for (int64_t i = 0; i < source.rows; ++i) {
        values[begin + static_cast<size_t>(i)] = widen(source, i);
      }
    }
    out.vector = reinterpret_cast<const float*>(memory);
    return copy(item.device, memory, values.data(), values.size() * sizeof(float));
  }

  static float widen(const WeightSource& source, int64_t i) {
    switch (source.format) {
      case WeightFormat::kF16:
        return quant::f16_to_float(static_cast<const uint16_t*>(source.data)[i]);
      case WeightFormat::kBF16:
        return quant::bf16_to_float(static_cast<const uint16_t*>(source.data)[i]);
      default:
        return static_cast<const float*>(source.data)[i];
    }
  }

  Expected<void> load_table(const LoadItem& item,
                            const std::vector<WeightSource>& sources,
                            std::byte* memory,
                            LoadedItem& out) {
    TANDEM_CHECK(sources.size() == 1);
    out.table = {memory, dtype_of(sources[0].format), {sources[0].rows, sources[0].k}};
    return copy(item.device, memory, sources[0].data, out.table.bytes());
  }

  static DType dtype_of(WeightFormat format) {
    if (format == WeightFormat::kF16) return DType::kF16;
    return format == WeightFormat::kBF16 ? DType::kBF16 : DType::kF32;
  }

  Expected<void> copy(DeviceIndex index, void* destination, const void* source, size_t bytes) {
    OwnedStream& stream = streams_[static_cast<size_t>(index)];
    const DeviceRef device = job_.devices[static_cast<size_t>(index)];
    if (!stream.get()) {
      TANDEM_ASSIGN(stream, OwnedStream::create(device));
    }
    TANDEM_TRY(tensor::to_expected(
        device.api->memory.copy(device.device, stream.get(), destination, source, bytes)));
    return tensor::to_expected(device.api->memory.synchronize(device.device, stream.get()));
  }

  Job& job_;
  std::vector<OwnedStream> streams_;  // by device, made when first used
  std::vector<Scratch> scratch_;      // two a part: values, scales
  std::vector<TensorView> opened_;
};

void run_workers(Job& job) {
  std::vector<std::jthread> threads;
  try {
    for (int i = 1; i < job.options.threads; ++i) {
      threads.emplace_back([&job] { Worker(job).run(); });
    }
  } catch (const std::system_error&) {
    // Fewer threads do the same work.
  }
  Worker(job).run();
}

}  // namespace

Expected<LoadedWeights> load(const std::vector<LoadItem>& items,
                             std::span<const DeviceRef> devices,
                             const TensorSource& source,
                             const LoadOptions& options) {
  TANDEM_CHECK(options.threads >= 1);
  LoadedWeights result;
  TANDEM_ASSIGN(std::vector<Target> targets, allocate_groups(items, devices, result.buffers));
  result.items.resize(items.size());
  Job job{.items = items,
          .devices = devices,
          .source = source,
          .options = options,
          .targets = std::move(targets),
          .loaded = result.items};
  for (const LoadItem& item : items) job.progress.total_bytes += item.source_bytes;
  run_workers(job);
  if (job.error) return fail(std::move(*job.error));
  return result;
}

}  // namespace tandem::weights
