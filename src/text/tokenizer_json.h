#pragma once
// Reads tokenizer.json (the tokenizers library's format, version 1.0) into a TokenizerSpec.
// Byte-level BPE only; every other component is refused by name.

#include <string_view>

#include "base/error.h"
#include "text/tokenizer_spec.h"

namespace tandem::text {

// `json`: the file's content. Errors: kCorruptData, kUnsupported; the message starts with
// "tokenizer.json: " and names the key.
Expected<TokenizerSpec> parse_tokenizer_json(std::string_view json);

}  // namespace tandem::text
