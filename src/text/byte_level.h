#pragma once
// The byte-level alphabet of GPT-2: each byte is written as one printable character in
// tokenizer.json. (The bytes that are printable in Latin-1 stand for themselves, the other 68
// follow from U+0100 on.)

#include <optional>
#include <string>
#include <string_view>

namespace tandem::text {

// The bytes that `written` stands for, or nullopt if it has a character outside the alphabet.
std::optional<std::string> bytes_of_byte_level(std::string_view written);

}  // namespace tandem::text
