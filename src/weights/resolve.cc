#include <fmt/format.h>

#include <set>
#include <string>

#include "base/log.h"
#include "weights/loader.h"

namespace tandem::weights {
namespace {

using kernels::DeviceRef;
using kernels::WeightFormat;
using kernels::WeightSource;
using tensor::DType;
using tensor::Shape;

constexpr int64_t kFp8Block = 128;
constexpr float kNoData = 0;

std::string to_text(const Shape& shape) {
  std::string text = "[";
  for (int i = 0; i < shape.rank; ++i) text += fmt::format("{}{}", i ? ", " : "", shape[i]);
  return text + "]";
}

Expected<TensorInfo> find_tensor(const TensorSource& source,
                                 const std::string& name,
                                 const Shape& wanted) {
  const auto info = source.find(name);
  if (!info) {
    return fail(ErrorCode::kNotFound,
                "tensor '{}' of shape {} is missing from the checkpoint",
                name,
                to_text(wanted));
  }
  if (!(info->shape == wanted)) {
    return fail(ErrorCode::kCorruptData,
                "file '{}': tensor '{}' has shape {}, config.json wants {}",
                info->file,
                name,
                to_text(info->shape),
                to_text(wanted));
  }
  return *info;
}

class Resolver {
 public:
  Resolver(std::span<const DeviceRef> devices, const TensorSource& source)
      : devices_(devices), source_(source) {}

  Expected<void> resolve_item(LoadItem& item) {
    std::vector<WeightSource> sources;
    item.source_bytes = 0;
    int64_t rows = 0;
    for (LoadPart& part : item.parts) {
      TANDEM_TRY(resolve_part(item, part));
      // Sizes do not depend on values; the tables want pointers all the same and do not follow
      // them.
      sources.push_back({.format = part.format,
                         .rows = part.rows,
                         .k = part.k,
                         .data = &kNoData,
                         .scales = part.scales.empty() ? nullptr : &kNoData,
                         .first_row = part.first_row});
      rows += part.rows;
    }
    const DeviceRef device = devices_[static_cast<size_t>(item.device)];
    tensor::Status status;
    switch (item.kind) {
      case LoadKind::kLinear:
        status = device.api->packed_bytes(device.device,
                                          sources.data(),
                                          static_cast<int32_t>(sources.size()),
                                          item.pairing,
                                          &item.device_bytes);
        break;
      case LoadKind::kMla:
        status = device.api->packed_mla_bytes(
            device.device, &item.mla, item.mla_storage, &item.device_bytes);
        break;
      case LoadKind::kVector:
        item.device_bytes = static_cast<size_t>(rows) * sizeof(float);
        break;
      case LoadKind::kTable:
        item.device_bytes = item.source_bytes;
        break;
    }
    if (!tensor::ok(status)) {
      Error error = tensor::to_expected(status).error();
      error.message = fmt::format("tensor '{}': {}", item.parts[0].tensor, error.message);
      return fail(std::move(error));
    }
    return {};
  }

  // Tensors that nothing used.
  Expected<void> check_unused(const std::function<bool(std::string_view)>& ignore) const {
    std::string first;
    size_t count = 0;
    for (const std::string_view name : source_.names()) {
      if (used_.contains(name) || (ignore && ignore(name))) continue;
      if (++count == 1) first = name;
    }
    if (count == 0) return {};
    return fail(Error{
        ErrorCode::kUnsupported,
        fmt::format("the checkpoint holds {} tensor{} that this architecture does not use: '{}'{}",
                    count,
                    count == 1 ? "" : "s",
                    log_safe(first),
                    count == 1 ? "" : ", …"),
        "config.json and the weights do not belong together, or the model is of another kind"});
  }

 private:
  Expected<void> resolve_part(LoadItem& item, LoadPart& part) {
    const bool vector = part.k == 0;
    const Shape wanted = vector ? Shape{part.tensor_rows} : Shape{part.tensor_rows, part.k};
    TANDEM_ASSIGN(const TensorInfo info, find_tensor(source_, part.tensor, wanted));
    used_.insert(part.tensor);
    const int64_t columns = vector ? 1 : part.k;
    item.source_bytes += static_cast<size_t>(part.rows * columns) * tensor::size_of(info.dtype);
    part.scales.clear();
    switch (info.dtype) {
      case DType::kF32:
        part.format = WeightFormat::kF32;
        return {};
      case DType::kF16:
        part.format = WeightFormat::kF16;
        return {};
      case DType::kBF16:
        part.format = WeightFormat::kBF16;
        return {};
      case DType::kF8E4M3:
        if (item.kind != LoadKind::kLinear && item.kind != LoadKind::kMla) break;
        part.format = WeightFormat::kF8Block128;
        return resolve_scales(part);
      default:
        break;
    }
    return fail(ErrorCode::kUnsupported,
                "file '{}': tensor '{}' has type {}, accepted are float32, float16, bfloat16{}",
                info.file,
                part.tensor,
                tensor::to_string(info.dtype),
                item.kind == LoadKind::kLinear ? " and float8_e4m3fn" : "");
  }

  Expected<void> resolve_scales(LoadPart& part) {
    part.scales = part.tensor + "_scale_inv";
    const Shape wanted{(part.tensor_rows + kFp8Block - 1) / kFp8Block,
                       (part.k + kFp8Block - 1) / kFp8Block};
    TANDEM_ASSIGN(const TensorInfo info, find_tensor(source_, part.scales, wanted));
    used_.insert(part.scales);
    if (info.dtype != DType::kF32) {
      return fail(ErrorCode::kUnsupported,
                  "file '{}': tensor '{}' has type {}, accepted is float32",
                  info.file,
                  part.scales,
                  tensor::to_string(info.dtype));
    }
    return {};
  }

  std::span<const DeviceRef> devices_;
  const TensorSource& source_;
  std::set<std::string, std::less<>> used_;
};

}  // namespace

Expected<void> resolve(std::vector<LoadItem>& items,
                       std::span<const DeviceRef> devices,
                       const TensorSource& source,
                       const std::function<bool(std::string_view)>& ignore) {
  Resolver resolver(devices, source);
  for (LoadItem& item : items) TANDEM_TRY(resolver.resolve_item(item));
  return resolver.check_unused(ignore);
}

}  // namespace tandem::weights
