// tokenizer.json and tokenizer_config.json: refused, or a tokenizer that encodes and decodes
// without harm. Input: tokenizer.json; after a line "====", tokenizer_config.json.
#include <string>
#include <vector>

#include "base/utf8.h"
#include "fuzz_input.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"
#include "text/tokenizer_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tandem::fuzz::FuzzInput input(data, size);
  const std::string_view json = input.until("\n====\n");
  auto config = tandem::text::parse_tokenizer_config(input.rest());
  const auto tokenizer = tandem::text::Tokenizer::parse(
      json, config ? std::move(*config) : tandem::text::TokenizerConfig{});
  if (!tokenizer) return 0;
  for (const std::string_view text : {"",
                                      "hello world",
                                      "  a\r\n\n b 1234567 \xc3\xa9\xe4\xbd\xa0\xf0\x9f\xa4\x97",
                                      "<s>hello<think>é</s>"}) {
    for (const auto around :
         {tandem::text::SequenceTokens::kNone, tandem::text::SequenceTokens::kConfigured}) {
      const auto ids = tokenizer->encode(text, {.around = around, .parse_special = true});
      if (!ids) continue;
      for (const int32_t id : *ids) TANDEM_CHECK(tokenizer->has_token(id));
      TANDEM_CHECK(tandem::utf8_is_valid(tokenizer->decode(*ids, false)));
      TANDEM_CHECK(tandem::utf8_is_valid(tokenizer->decode(*ids, true)));
    }
  }
  return 0;
}
