#pragma once
// For tests: a folder that is removed with all it holds. One thread.

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

#include "base/check.h"

namespace tandem::system {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tandem-XXXXXX").string();
    TANDEM_CHECK(::mkdtemp(pattern.data()) != nullptr, "no temporary folder");
    path_ = pattern;
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }

  // Writes path()/name, making folders on the way; returns the whole path.
  std::string write(const std::string& name, std::string_view content) const {
    const std::filesystem::path file = std::filesystem::path(path_) / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream stream(file, std::ios::binary);
    stream.write(content.data(), static_cast<std::streamsize>(content.size()));
    stream.close();
    TANDEM_CHECK(stream.good(), "a test file could not be written");
    return file.string();
  }

 private:
  std::string path_;
};

}  // namespace tandem::system
