#pragma once
// For tests: makes the bytes of a safetensors file, honest or not.

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"

namespace tandem::weights::testing {

struct WrittenTensor {
  std::string name;
  std::string dtype;  // "F32"
  std::vector<int64_t> shape;
  std::string bytes;
};

inline std::string with_header(const std::string& header, const std::string& data) {
  std::string file(8, '\0');
  for (size_t i = 0; i < 8; ++i) file[i] = static_cast<char>(header.size() >> (8 * i));
  return file + header + data;
}

inline std::string write_safetensors(const std::vector<WrittenTensor>& tensors) {
  OrderedJson header = OrderedJson::object();
  std::string data;
  for (const WrittenTensor& tensor : tensors) {
    header[tensor.name] = {{"dtype", tensor.dtype},
                           {"shape", tensor.shape},
                           {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data += tensor.bytes;
  }
  std::string text = dump_json(header);
  text.append((8 - text.size() % 8) % 8, ' ');
  return with_header(text, data);
}

}  // namespace tandem::weights::testing
