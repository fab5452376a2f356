#include "kernels/weight.h"

namespace tandem::kernels {

const char* to_string(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
      return "float32";
    case WeightFormat::kF16:
      return "float16";
    case WeightFormat::kBF16:
      return "bfloat16";
    case WeightFormat::kF8Block128:
      return "float8_e4m3fn with 128x128 scales";
  }
  return "unknown";
}

}  // namespace tandem::kernels
