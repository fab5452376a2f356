// A safetensors file: refused, or every tensor's bytes lie inside the file. Input: the file.
#include <span>

#include "fuzz_input.h"
#include "weights/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  const auto tensors = tandem::weights::parse_safetensors(file, "fuzz.safetensors");
  if (!tensors) {
    TANDEM_CHECK(tensors.error().message.find("fuzz.safetensors") != std::string::npos);
    return 0;
  }
  volatile unsigned sum = 0;  // keeps the reads
  for (const auto& tensor : *tensors) {
    const auto* begin = static_cast<const std::byte*>(tensor.view.data);
    const size_t bytes = tensor.view.bytes();
    TANDEM_CHECK(bytes == 0 ||
                 (begin >= file.data() && bytes <= size && begin + bytes <= file.data() + size));
    for (size_t i = 0; i < bytes; ++i) sum = sum + std::to_integer<unsigned>(begin[i]);
  }
  return 0;
}
