// The main of the fuzzers where they are not linked with libFuzzer: feeds every file of the given
// folders, and what it is cut to at many places, so that a corpus keeps passing with any compiler.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <vector>

#include "fuzz_input.h"

namespace {

constexpr size_t kCutsPerFile = 64;

void feed(const std::string& bytes) {
  // A copy of exactly this size: reading past it is seen by the sanitizers.
  const std::vector<uint8_t> copy(bytes.begin(), bytes.end());
  LLVMFuzzerTestOneInput(copy.data(), copy.size());
}

void feed_with_cuts(const std::string& bytes) {
  feed(bytes);
  const size_t step = bytes.size() / kCutsPerFile + 1;
  for (size_t size = 0; size < bytes.size(); size += step) feed(bytes.substr(0, size));
}

}  // namespace

int main(int argc, char** argv) {
  size_t files = 0;
  for (int i = 1; i < argc; ++i) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(argv[i], error)) {
      std::ifstream stream(entry.path(), std::ios::binary);
      feed_with_cuts({std::istreambuf_iterator<char>(stream), {}});
      ++files;
    }
    if (error) std::fprintf(stderr, "%s: %s\n", argv[i], error.message().c_str());
  }
  std::printf("%zu files\n", files);
  return files > 0 ? 0 : 1;
}
