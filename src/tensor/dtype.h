#pragma once
// C++20 (shared with .cu)
// Element types. No arithmetic here: conversions of published formats are in quant/.

#include <cstddef>
#include <cstdint>

namespace tandem::tensor {

enum class DType : int32_t {
  kF32 = 0,
  kF16 = 1,
  kBF16 = 2,
  kF8E4M3 = 3,  // OCP e4m3fn: no infinities, 0x7f and 0xff are NaN, largest 448
  kF8E5M2 = 4,
  kI8 = 5,
  kU8 = 6,
  kI16 = 7,
  kI32 = 8,
  kI64 = 9,
  kF64 = 10,
  kBool = 11,
};

// Bytes of one element, 1 to 8.
constexpr size_t size_of(DType type) {
  switch (type) {
    case DType::kF8E4M3:
    case DType::kF8E5M2:
    case DType::kI8:
    case DType::kU8:
    case DType::kBool:
      return 1;
    case DType::kF16:
    case DType::kBF16:
    case DType::kI16:
      return 2;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kI64:
    case DType::kF64:
      return 8;
  }
  return 0;
}

// "bfloat16", "float32", "float8_e4m3fn", …: the words of config.json and --dtype.
constexpr const char* to_string(DType type) {
  switch (type) {
    case DType::kF32:
      return "float32";
    case DType::kF16:
      return "float16";
    case DType::kBF16:
      return "bfloat16";
    case DType::kF8E4M3:
      return "float8_e4m3fn";
    case DType::kF8E5M2:
      return "float8_e5m2";
    case DType::kI8:
      return "int8";
    case DType::kU8:
      return "uint8";
    case DType::kI16:
      return "int16";
    case DType::kI32:
      return "int32";
    case DType::kI64:
      return "int64";
    case DType::kF64:
      return "float64";
    case DType::kBool:
      return "bool";
  }
  return "unknown";
}

}  // namespace tandem::tensor
