#pragma once
// JSON with a bound on nesting (nlohmann's parser has none) and errors as values.
// Throws nothing. Any thread.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace tandem {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;  // keeps the order of keys, as JSON text has it

constexpr int kMaxJsonDepth = 64;

// Errors: kInvalidArgument with the byte offset; deeper than `max_depth`; invalid UTF-8; text after
// the value.
Expected<Json> parse_json(std::string_view text, int max_depth = kMaxJsonDepth);
Expected<OrderedJson> parse_ordered_json(std::string_view text, int max_depth = kMaxJsonDepth);

// Never throws: ill-formed UTF-8 in strings becomes U+FFFD. No blanks, no HTML escapes.
std::string dump_json(const Json& value);
std::string dump_json(const OrderedJson& value);

// Appends what dump_json gives for a string, without making a value of it first.
void append_json_string(std::string& out, std::string_view text);

// Typed look-ups for configuration files. `where` names the file in the message.
// A missing or null key gives nullopt; a wrong type or a value outside the range is an error.
Expected<std::optional<int64_t>> json_int(
    const Json& object, std::string_view key, int64_t low, int64_t high, std::string_view where);
Expected<std::optional<double>> json_number(const Json& object,
                                            std::string_view key,
                                            std::string_view where);
Expected<std::optional<bool>> json_bool(const Json& object,
                                        std::string_view key,
                                        std::string_view where);
Expected<std::optional<std::string>> json_string(const Json& object,
                                                 std::string_view key,
                                                 std::string_view where);

}  // namespace tandem
