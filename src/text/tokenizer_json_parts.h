#pragma once
// The components of tokenizer.json beside the model: each reads one JSON object into a
// TokenizerSpec. For tokenizer_json.cc only.

#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "text/tokenizer_spec.h"

namespace tandem::text {

// An object of the file and the path to it, for messages: "pre_tokenizer.pretokenizers[2]".
struct JsonNode {
  const Json* value = nullptr;
  std::string path;

  bool missing() const { return value == nullptr || value->is_null(); }
  // The member `key`; missing() if there is none or this is no object.
  JsonNode operator[](std::string_view key) const;
  JsonNode operator[](size_t index) const;

  std::unexpected<Error> corrupt(std::string_view what) const;
  std::unexpected<Error> unsupported(std::string_view what) const;

  Expected<std::string> string() const;
  Expected<bool> boolean(bool if_missing) const;
  Expected<int64_t> integer(int64_t low, int64_t high) const;
  // The number of elements of an array.
  Expected<size_t> array_size() const;
  // The string at "type".
  Expected<std::string> type() const { return (*this)["type"].string(); }
};

Expected<void> read_normalizer(const JsonNode& node, TokenizerSpec& spec);
Expected<void> read_pre_tokenizer(const JsonNode& node, TokenizerSpec& spec);
Expected<void> read_post_processor(const JsonNode& node, TokenizerSpec& spec);
Expected<void> check_decoder(const JsonNode& node);

}  // namespace tandem::text
