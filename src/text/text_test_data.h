#pragma once
// check_headers: -DTANDEM_SOURCE_DIR=""
// For this module's tests: where the data stands, and reading it.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "text/tokenizer.h"
#include "text/tokenizer_config.h"

namespace tandem::text::test {

inline std::filesystem::path source_dir() { return TANDEM_SOURCE_DIR; }

// Data handed over beside the checkout; may be absent.
inline std::filesystem::path shared_dir() {
  const char* given = std::getenv("TANDEM_SHARED_DIR");
  return given != nullptr ? std::filesystem::path(given) : source_dir() / ".." / "shared";
}

inline std::optional<std::string> read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

// The first of the two that exists; the last otherwise.
inline std::filesystem::path either(const std::filesystem::path& first,
                                    const std::filesystem::path& second) {
  return std::filesystem::exists(first) ? first : second;
}

// "tandem-tiny-v3" or a name under ../shared/tokenizers.
inline std::filesystem::path tokenizer_dir(const std::string& name) {
  if (name != "tandem-tiny-v3") return shared_dir() / "tokenizers" / name;
  return either(source_dir() / "models" / name, shared_dir() / "model" / name);
}

inline std::filesystem::path golden_file(const std::string& name) {
  return either(source_dir() / "tests" / "golden" / name, shared_dir() / "golden" / name);
}

struct Loaded {
  TokenizerConfig config;
  Tokenizer tokenizer;
};

// nullopt where the files are absent; a test failure where they do not load.
inline std::optional<Loaded> load_tokenizer(const std::string& name) {
  const auto dir = tokenizer_dir(name);
  const auto json = read_file(dir / "tokenizer.json");
  const auto config_json = read_file(dir / "tokenizer_config.json");
  if (!json || !config_json) return std::nullopt;
  auto config = parse_tokenizer_config(*config_json);
  EXPECT_TRUE(config) << config.error().message;
  if (!config) return std::nullopt;
  auto tokenizer = Tokenizer::parse(*json, *config);
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  if (!tokenizer) return std::nullopt;
  return Loaded{*std::move(config), *std::move(tokenizer)};
}

// One JSON value a line; empty where the file is absent.
inline std::vector<OrderedJson> read_json_lines(const std::filesystem::path& path) {
  std::vector<OrderedJson> out;
  std::ifstream file(path, std::ios::binary);
  for (std::string line; std::getline(file, line);) {
    auto value = parse_ordered_json(line);
    EXPECT_TRUE(value) << path << ": " << value.error().message;
    if (value) out.push_back(*std::move(value));
  }
  return out;
}

}  // namespace tandem::text::test
