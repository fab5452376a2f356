#pragma once
// How the bytes of a fuzzer's input are read, and how a broken promise is told.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"

namespace tandem::fuzz {

// Takes single bytes off the front, for choices, and gives the rest as text.
class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  // 0 at the end.
  uint8_t byte() {
    if (rest_.empty()) return 0;
    const auto out = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return out;
  }
  std::string_view rest() const { return rest_; }
  // Up to `mark`, which is taken too; everything when there is none.
  std::string_view until(std::string_view mark) {
    const size_t at = rest_.find(mark);
    const std::string_view out = rest_.substr(0, at);
    rest_.remove_prefix(at == std::string_view::npos ? rest_.size() : at + mark.size());
    return out;
  }

 private:
  std::string_view rest_;
};

}  // namespace tandem::fuzz

// libFuzzer's entry; replay_main.cc calls it with the corpus.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
