#pragma once
// For tests of operators: random tensors, a device with a stream, comparisons. The same test code
// runs on every device (operator_test_cases.h), so that one can be held against another.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <deque>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/device.h"
#include "quant/rows.h"
#include "tensor/buffer.h"

namespace tandem::kernels::testing {

using Random = std::mt19937;

// [rows, columns] of kF32, kBF16 or kF16 in host memory.
struct HostRows {
  DType dtype = DType::kF32;
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<uint8_t> bytes;

  HostRows() = default;
  HostRows(DType type, int64_t row_count, int64_t column_count)
      : dtype(type),
        rows(row_count),
        columns(column_count),
        bytes(static_cast<size_t>(row_count * column_count) * size_of(type)) {}

  float at(int64_t r, int64_t c) const {
    const uint8_t* place = bytes.data() + offset(r, c);
    if (dtype == DType::kF32) {
      float value;
      std::memcpy(&value, place, sizeof(value));
      return value;
    }
    uint16_t bits;
    std::memcpy(&bits, place, sizeof(bits));
    return dtype == DType::kBF16 ? quant::bf16_to_float(bits) : quant::f16_to_float(bits);
  }
  void set(int64_t r, int64_t c, float value) {
    uint8_t* place = bytes.data() + offset(r, c);
    if (dtype == DType::kF32) {
      std::memcpy(place, &value, sizeof(value));
      return;
    }
    const uint16_t bits =
        dtype == DType::kBF16 ? quant::float_to_bf16(value) : quant::float_to_f16(value);
    std::memcpy(place, &bits, sizeof(bits));
  }
  std::vector<float> row(int64_t r) const {
    std::vector<float> values;
    for (int64_t c = 0; c < columns; ++c) values.push_back(at(r, c));
    return values;
  }

 private:
  size_t offset(int64_t r, int64_t c) const {
    return static_cast<size_t>(r * columns + c) * size_of(dtype);
  }
};

// Normal with standard deviation `scale`.
inline HostRows random_rows(
    Random& random, DType dtype, int64_t rows, int64_t columns, float scale = 1.0f) {
  HostRows out(dtype, rows, columns);
  std::normal_distribution<float> normal(0.0f, scale);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) out.set(r, c, normal(random));
  }
  return out;
}

inline std::vector<float> random_values(Random& random, int64_t count, float mean, float scale) {
  std::normal_distribution<float> normal(mean, scale);
  std::vector<float> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(normal(random));
  return out;
}

// A whole published tensor.
struct HostWeight {
  WeightFormat format = WeightFormat::kF32;
  int64_t rows = 0;
  int64_t k = 0;
  std::vector<uint8_t> bytes;
  std::vector<float> scales;

  WeightSource source() const { return source(0, rows); }
  WeightSource source(int64_t first_row, int64_t count) const {
    const auto row_bytes = k * quant::bytes_of_value(static_cast<quant::RowFormat>(format));
    return {format,
            count,
            k,
            bytes.data() + first_row * row_bytes,
            scales.empty() ? nullptr : scales.data(),
            first_row};
  }
  // float32 values of one row, scales applied.
  std::vector<float> row(int64_t r) const {
    std::vector<float> out(static_cast<size_t>(k));
    quant::dequantize_rows({static_cast<quant::RowFormat>(format),
                            k,
                            bytes.data(),
                            scales.empty() ? nullptr : scales.data(),
                            0},
                           r,
                           1,
                           out.data());
    return out;
  }
};

inline HostWeight random_weight(
    Random& random, WeightFormat format, int64_t rows, int64_t k, float scale = 0.1f) {
  HostWeight out{format, rows, k, {}, {}};
  if (format != WeightFormat::kF8Block128) {
    const DType dtype = format == WeightFormat::kF32   ? DType::kF32
                        : format == WeightFormat::kF16 ? DType::kF16
                                                       : DType::kBF16;
    out.bytes = random_rows(random, dtype, rows, k, scale).bytes;
    return out;
  }
  std::normal_distribution<float> normal(0.0f, 60.0f);
  for (int64_t i = 0; i < rows * k; ++i)
    out.bytes.push_back(quant::float_to_f8e4m3(normal(random)));
  std::uniform_real_distribution<float> spread(0.5f * scale / 60, 2.0f * scale / 60);
  const int64_t count = (rows + 127) / 128 * quant::scale_columns(k);
  for (int64_t i = 0; i < count; ++i) out.scales.push_back(spread(random));
  return out;
}

// A device, one stream, and everything uploaded to it. One thread.
class TestDevice {
 public:
  explicit TestDevice(OwnedDevice device) : device_(std::move(device)) {
    EXPECT_TRUE(tensor::ok(memory().create_stream(handle(), &stream_)));
    EXPECT_TRUE(tensor::ok(api().describe(handle(), &info_)));
  }
  // E.g. TestDevice(open_reference_device(DType::kF32)).
  explicit TestDevice(Expected<OwnedDevice> device) : TestDevice(std::move(device).value()) {}
  TestDevice(const TestDevice&) = delete;
  TestDevice& operator=(const TestDevice&) = delete;
  ~TestDevice() {
    memory().destroy_stream(handle(), stream_);
    buffers_.clear();
  }

  const DeviceApi& api() const { return *device_.ref().api; }
  const tensor::MemoryApi& memory() const { return api().memory; }
  Device* handle() const { return device_.ref().device; }
  Stream* stream() const { return stream_; }
  DType activation() const { return info_.activation; }
  const DeviceInfo& info() const { return info_; }

  void* allocate(size_t bytes) {
    auto buffer = tensor::Buffer::allocate(handle(), memory(), {std::max<size_t>(bytes, 1)});
    EXPECT_TRUE(buffer.has_value());
    buffers_.push_back(std::move(*buffer));
    return buffers_.back().data();
  }

  void* upload_bytes(const void* data, size_t bytes) {
    void* out = allocate(bytes);
    EXPECT_TRUE(tensor::ok(memory().copy(handle(), stream_, out, data, bytes)));
    EXPECT_TRUE(tensor::ok(memory().synchronize(handle(), stream_)));
    return out;
  }
  // Null for an empty vector.
  template <class T>
  T* upload(const std::vector<T>& values) {
    if (values.empty()) return nullptr;
    return static_cast<T*>(upload_bytes(values.data(), values.size() * sizeof(T)));
  }
  // `padding` elements between rows: operators must heed the stride.
  RowsView upload(const HostRows& rows, int64_t padding = 3) {
    const size_t size = size_of(rows.dtype);
    const auto stride = static_cast<size_t>(rows.columns + padding);
    const size_t row_bytes = static_cast<size_t>(rows.columns) * size;
    std::vector<uint8_t> bytes(std::max<size_t>(static_cast<size_t>(rows.rows) * stride * size, 1));
    for (size_t r = 0; r < static_cast<size_t>(rows.rows); ++r) {
      std::memcpy(bytes.data() + r * stride * size, rows.bytes.data() + r * row_bytes, row_bytes);
    }
    return {upload_bytes(bytes.data(), bytes.size()),
            rows.dtype,
            rows.columns,
            static_cast<int64_t>(stride)};
  }
  // Zeroed rows for an output.
  RowsView output(DType dtype, int64_t rows, int64_t columns) {
    return upload(HostRows(dtype, rows, columns));
  }

  template <class T>
  std::vector<T> download(const T* data, size_t count) {
    std::vector<T> out(count);
    EXPECT_TRUE(tensor::ok(memory().copy(handle(), stream_, out.data(), data, count * sizeof(T))));
    EXPECT_TRUE(tensor::ok(memory().synchronize(handle(), stream_)));
    return out;
  }
  HostRows download(const RowsView& view, int64_t rows) {
    HostRows out(view.dtype, rows, view.columns);
    const size_t size = size_of(view.dtype);
    const size_t row_bytes = static_cast<size_t>(view.columns) * size;
    for (int64_t r = 0; r < rows; ++r) {
      const auto bytes = download(
          static_cast<const uint8_t*>(view.data) + r * view.stride * static_cast<int64_t>(size),
          row_bytes);
      std::memcpy(out.bytes.data() + static_cast<size_t>(r) * row_bytes, bytes.data(), row_bytes);
    }
    return out;
  }

  // Valid as long as the TestDevice.
  const PackedWeight* pack(const std::vector<WeightSource>& parts,
                           Pairing pairing = Pairing::kConcatenate) {
    const auto count = static_cast<int32_t>(parts.size());
    size_t bytes = 0;
    const Status sized = api().packed_bytes(handle(), parts.data(), count, pairing, &bytes);
    EXPECT_TRUE(tensor::ok(sized)) << sized.message;
    weights_.emplace_back();
    const Status packed =
        api().pack(handle(), parts.data(), count, pairing, allocate(bytes), &weights_.back());
    EXPECT_TRUE(tensor::ok(packed)) << packed.message;
    return &weights_.back();
  }
  const MlaWeights* pack_mla(const HostWeight& kv_b, const MlaShape& shape, DType storage) {
    size_t bytes = 0;
    EXPECT_TRUE(tensor::ok(api().packed_mla_bytes(handle(), &shape, storage, &bytes)));
    const WeightSource source = kv_b.source();
    mla_.emplace_back();
    const Status packed =
        api().pack_mla(handle(), &source, &shape, storage, allocate(bytes), &mla_.back());
    EXPECT_TRUE(tensor::ok(packed)) << packed.message;
    return &mla_.back();
  }

  // Submits and waits: run(&DeviceApi::linear, args).
  template <class Args>
  Status run(Status (*DeviceApi::*function)(Device*, Stream*, const Args*), const Args& args) {
    const Status submitted = (api().*function)(handle(), stream_, &args);
    if (!tensor::ok(submitted)) return submitted;
    return memory().synchronize(handle(), stream_);
  }
  template <class Args>
  void run_ok(Status (*DeviceApi::*function)(Device*, Stream*, const Args*), const Args& args) {
    const Status status = run(function, args);
    EXPECT_TRUE(tensor::ok(status)) << status.message;
  }

 private:
  OwnedDevice device_;
  Stream* stream_ = nullptr;
  DeviceInfo info_;
  std::deque<tensor::Buffer> buffers_;
  std::deque<PackedWeight> weights_;
  std::deque<MlaWeights> mla_;
};

// |got - expected| <= absolute + relative * |expected| for every value.
inline void expect_close(const HostRows& got,
                         const HostRows& expected,
                         float absolute,
                         float relative,
                         const std::string& what = "") {
  ASSERT_EQ(got.rows, expected.rows);
  ASSERT_EQ(got.columns, expected.columns);
  for (int64_t r = 0; r < got.rows; ++r) {
    for (int64_t c = 0; c < got.columns; ++c) {
      const float a = got.at(r, c);
      const float b = expected.at(r, c);
      ASSERT_TRUE(std::fabs(a - b) <= absolute + relative * std::fabs(b))
          << what << " row " << r << " column " << c << ": " << a << ", expected " << b;
    }
  }
}

inline void expect_equal_bits(const HostRows& got,
                              const HostRows& expected,
                              const std::string& what = "") {
  ASSERT_EQ(got.dtype, expected.dtype);
  ASSERT_EQ(got.rows, expected.rows);
  ASSERT_EQ(got.columns, expected.columns);
  for (int64_t r = 0; r < got.rows; ++r) {
    for (int64_t c = 0; c < got.columns; ++c) {
      const float a = got.at(r, c);
      const float b = expected.at(r, c);
      ASSERT_EQ(std::bit_cast<uint32_t>(a), std::bit_cast<uint32_t>(b))
          << what << " row " << r << " column " << c << ": " << a << ", expected " << b;
    }
  }
}

}  // namespace tandem::kernels::testing
