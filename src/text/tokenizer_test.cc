// What tokenizer.json may say, and control tokens in text that is not trusted. Small vocabularies
// written here; no data files.

#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "base/json.h"
#include "text/detokenizer.h"

namespace tandem::text {
namespace {

using Ids = std::vector<int32_t>;

// Bytes 33 to 126 as ids 0 to 93, then a blank (94), a newline (95), the bytes of "é", "你"
// (96…100), "he" 101, "hel" 102, "lo" 103; added tokens <s> 110, <think> 111 (not special), word
// 112.
Json small_tokenizer() {
  Json vocab = Json::object();
  int id = 0;
  for (char c = 33; c < 127; ++c) vocab[std::string(1, c)] = id++;
  for (const char* written : {"Ġ", "Ċ", "Ã", "©", "ä", "½", "ł"}) vocab[written] = id++;
  vocab["he"] = id++;
  vocab["hel"] = id++;
  vocab["lo"] = id++;
  const auto added = [](int token_id, const char* content, bool special) {
    return Json{{"id", token_id},
                {"content", content},
                {"special", special},
                {"normalized", false},
                {"single_word", false},
                {"lstrip", false},
                {"rstrip", false}};
  };
  return Json{
      {"added_tokens",
       {added(110, "<s>", true), added(111, "<think>", false), added(112, "word", false)}},
      {"normalizer", nullptr},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
      {"post_processor", nullptr},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", {"h e", "he l", "l o"}}}}};
}

Tokenizer make(const Json& json, const TokenizerConfig& config = {}) {
  auto tokenizer = Tokenizer::parse(dump_json(json), config);
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  return *std::move(tokenizer);
}

std::string error_of(const Json& json, ErrorCode code = ErrorCode::kCorruptData) {
  const auto tokenizer = Tokenizer::parse(dump_json(json), {});
  if (tokenizer) return "loaded";
  EXPECT_EQ(tokenizer.error().code, code) << tokenizer.error().message;
  return tokenizer.error().message;
}

TEST(Tokenizer, EncodesAndDecodes) {
  const Tokenizer t = make(small_tokenizer());
  EXPECT_EQ(t.encode("hello", {}).value(), (Ids{102, 103}));
  EXPECT_EQ(t.encode("<s>hello<think>é", {}).value(), (Ids{110, 102, 103, 111, 96, 97}));
  EXPECT_EQ(t.encode("", {}).value(), Ids{});
  EXPECT_EQ(t.decode(Ids{110, 102, 103, 96, 97}, true), "helloé");
  EXPECT_EQ(t.decode(Ids{110, 102, 103, 96}, false), "<s>hello\uFFFD");
  EXPECT_EQ(t.decode(Ids{-1, 5000, 105, 103}, false), "lo");
  EXPECT_EQ(t.vocab_size(), 113);
  EXPECT_FALSE(t.has_token(105));
  EXPECT_EQ(t.token_bytes(96), "\xC3");
  EXPECT_EQ(t.token_to_id("<think>"), 111);
  EXPECT_EQ(t.token_to_id("hel"), 102);
  EXPECT_EQ(t.token_to_id("nothing"), std::nullopt);
  EXPECT_TRUE(t.is_special(110));
  EXPECT_FALSE(t.is_special(111));
  EXPECT_TRUE(t.is_control(111));
  EXPECT_FALSE(t.is_control(112));
  EXPECT_FALSE(t.is_special(-5));
  EXPECT_FALSE(t.encode("\xFF", {}));
}

TEST(Tokenizer, UntrustedTextNeverBecomesAControlToken) {
  const Tokenizer t = make(small_tokenizer());
  const Ids spelled = t.encode("<s>", {.parse_special = false}).value();
  EXPECT_EQ(spelled, (Ids{'<' - 33, 's' - 33, '>' - 33}));
  // Words that are added tokens but no markup are ordinary text.
  EXPECT_EQ(t.encode("word", {.parse_special = false}).value(), Ids{112});

  const TextSegment segments[] = {{"<s>", true}, {"he<think>", false}, {"llo<s>", true}};
  const Ids ids = t.encode(segments, SequenceTokens::kNone).value();
  EXPECT_EQ(ids.front(), 110);
  EXPECT_EQ(ids.back(), 110);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 111), 0);
  EXPECT_EQ(t.decode(ids, false), "<s>he<think>llo<s>");

  // A control token that a client's text begins or ends is none, wherever the border lies.
  for (size_t cut = 1; cut < 7; ++cut) {
    const std::string think = "<think>";
    for (const bool first_trusted : {false, true}) {
      const TextSegment halves[] = {{std::string_view(think).substr(0, cut), first_trusted},
                                    {std::string_view(think).substr(cut), !first_trusted}};
      const Ids joined = t.encode(halves, SequenceTokens::kNone).value();
      EXPECT_EQ(std::count(joined.begin(), joined.end(), 111), 0) << cut;
    }
  }
  // … but one that follows, right behind a false start, is.
  const TextSegment tail[] = {{"<thi", false}, {"<think>", true}};
  EXPECT_EQ(t.encode(tail, SequenceTokens::kNone).value().back(), 111);
}

TEST(Tokenizer, SegmentsSplitAndMergeAsOneText) {
  const Tokenizer t = make(small_tokenizer());
  const TextSegment segments[] = {{"h", true}, {"el", false}, {"lo", true}};
  EXPECT_EQ(t.encode(segments, SequenceTokens::kNone).value(), (Ids{102, 103}));
}

TEST(Tokenizer, UntrustedThroughNormalization) {
  Json json = small_tokenizer();
  json["normalizer"] = {{"type", "Lowercase"}};
  for (auto& token : json["added_tokens"]) token["normalized"] = true;
  const Tokenizer t = make(json);
  EXPECT_EQ(t.encode("<S>", {}).value(), Ids{110});
  const TextSegment segments[] = {{"<S>", false}, {"<S>", true}};
  const Ids ids = t.encode(segments, SequenceTokens::kNone).value();
  EXPECT_EQ(ids, (Ids{'<' - 33, 's' - 33, '>' - 33, 110}));
}

// A vocabulary whose merges spell a control token must not give it away either.
TEST(Tokenizer, MergesDoNotMakeControlTokens) {
  Json json = small_tokenizer();
  json["model"]["vocab"]["<s"] = 104;
  json["model"]["vocab"]["<s>"] = 110;
  json["model"]["merges"] = {"< s", "<s >", "h e"};
  for (const bool ignore_merges : {false, true}) {
    json["model"]["ignore_merges"] = ignore_merges;
    json["pre_tokenizer"]["use_regex"] = false;
    const Tokenizer t = make(json);
    EXPECT_EQ(t.encode("<s>", {}).value(), Ids{110});
    EXPECT_EQ(t.encode("<s>", {.parse_special = false}).value(), (Ids{104, '>' - 33}));
    EXPECT_EQ(t.encode("he", {}).value(), Ids{101});
  }
}

TEST(Tokenizer, AddedTokenFlags) {
  Json json = small_tokenizer();
  json["added_tokens"][0]["lstrip"] = true;
  json["added_tokens"][0]["rstrip"] = true;
  json["added_tokens"][2]["single_word"] = true;
  const Tokenizer t = make(json);
  EXPECT_EQ(t.encode("a  <s> \n b", {}).value(), (Ids{'a' - 33, 110, 'b' - 33}));
  EXPECT_EQ(t.encode("word", {}).value(), Ids{112});
  EXPECT_EQ(t.encode(".word.", {}).value(), (Ids{'.' - 33, 112, '.' - 33}));
  EXPECT_EQ(t.encode("swords", {}).value().size(), 6u);
}

TEST(Tokenizer, TokensAroundASequence) {
  Json json = small_tokenizer();
  TokenizerConfig config =
      parse_tokenizer_config(R"({"bos_token":"<s>","eos_token":{"content":"<think>"},
      "add_bos_token":true,"pad_token":null,"model_max_length":1e30})")
          .value();
  EXPECT_EQ(config.special_tokens.size(), 2u);
  const Tokenizer plain = make(json, config);
  EXPECT_EQ(plain.bos_id(), 110);
  EXPECT_EQ(plain.eos_id(), 111);
  EXPECT_EQ(plain.encode("he", {.around = SequenceTokens::kFile}).value(), Ids{101});
  EXPECT_EQ(plain.encode("he", {.around = SequenceTokens::kConfigured}).value(), (Ids{110, 101}));
  EXPECT_EQ(plain.encode("<s>he", {.around = SequenceTokens::kConfigured}).value(),
            (Ids{110, 101}));
  EXPECT_EQ(plain.encode("", {.around = SequenceTokens::kConfigured}).value(), Ids{110});

  json["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single",
       {{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
        {{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
        {{"SpecialToken", {{"id", "<think>"}, {"type_id", 0}}}}}},
      {"special_tokens", {{"<s>", {{"ids", {110}}}}, {"<think>", {{"ids", {111}}}}}}};
  const Tokenizer processed = make(json, config);
  EXPECT_EQ(processed.encode("he", {.around = SequenceTokens::kFile}).value(),
            (Ids{110, 101, 111}));
  EXPECT_EQ(processed.encode("he", {.around = SequenceTokens::kConfigured}).value(),
            (Ids{110, 101, 111}));
  EXPECT_EQ(processed.encode("he", {}).value(), Ids{101});
}

TEST(Tokenizer, ErrorsNameTheKey) {
  EXPECT_EQ(Tokenizer::parse("{", {}).error().message.substr(0, 34),
            "tokenizer.json: not valid JSON at ");
  EXPECT_EQ(error_of(Json::array()), "tokenizer.json: must be an object");
  const auto broken = [](std::string_view pointer, Json value) {
    Json json = small_tokenizer();
    json[Json::json_pointer(std::string(pointer))] = std::move(value);
    return json;
  };
  EXPECT_EQ(error_of(broken("/model", nullptr)), "tokenizer.json: 'model' must be an object");
  EXPECT_EQ(error_of(broken("/model/vocab/a", -1)),
            "tokenizer.json: 'model.vocab.a' must be an integer from 0 to 2097151");
  EXPECT_EQ(error_of(broken("/model/vocab/a", 101)),
            "tokenizer.json: 'model.vocab.he' token id 101 is given twice");
  EXPECT_EQ(error_of(broken("/model/merges/1", "h q e")),
            "tokenizer.json: 'model.merges[1]' must be two tokens");
  EXPECT_EQ(error_of(broken("/model/merges/1", Json::array({"h", "x"}))),
            "tokenizer.json: 'model.merges[1]' has a token that is not in 'model.vocab'");
  EXPECT_EQ(error_of(broken("/added_tokens/0/id", 1e9)),
            "tokenizer.json: 'added_tokens[0].id' must be an integer from 0 to 2097151");
  EXPECT_EQ(error_of(broken("/added_tokens/1/id", 110)),
            "tokenizer.json: 'added_tokens[1]': token id 110 is given twice");
  EXPECT_EQ(error_of(broken("/added_tokens/1/content", "a")),
            "tokenizer.json: 'added_tokens[1]' has id 111, but 'model.vocab' says 64");
  EXPECT_EQ(error_of(broken("/added_tokens/0/lstrip", "yes")),
            "tokenizer.json: 'added_tokens[0].lstrip' must be true or false");
}

TEST(Tokenizer, UnknownPartsAreRefusedByName) {
  const auto unsupported = [](std::string_view pointer, Json value) {
    Json json = small_tokenizer();
    json[Json::json_pointer(std::string(pointer))] = std::move(value);
    return error_of(json, ErrorCode::kUnsupported);
  };
  const auto has = [](const std::string& message, std::string_view part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  has(unsupported("/model/type", "Unigram"), "the model 'Unigram'");
  has(unsupported("/model/byte_fallback", true), "model.byte_fallback");
  has(unsupported("/model/dropout", 0.1), "model.dropout");
  has(unsupported("/model/end_of_word_suffix", "</w>"), "model.end_of_word_suffix");
  has(unsupported("/normalizer", {{"type", "StripAccents"}}), "the normalizer 'StripAccents'");
  has(unsupported("/pre_tokenizer", {{"type", "Metaspace"}}), "the pre-tokenizer 'Metaspace'");
  has(unsupported("/pre_tokenizer", nullptr), "without the ByteLevel pre-tokenizer");
  has(unsupported("/post_processor", {{"type", "BertProcessing"}}), "'BertProcessing'");
  has(unsupported("/decoder", {{"type", "WordPiece"}}), "the decoder 'WordPiece'");
  has(unsupported("/pre_tokenizer",
                  {{"type", "Sequence"},
                   {"pretokenizers", {{{"type", "ByteLevel"}}, {{"type", "Digits"}}}}}),
      "'Digits' behind the byte-level step");
  has(unsupported("/pre_tokenizer",
                  {{"type", "Split"},
                   {"pattern", {{"Regex", "[a&&b]"}}},
                   {"behavior", "Isolated"},
                   {"invert", false}}),
      "pre_tokenizer.pattern");
}

TEST(Tokenizer, ConfigErrors) {
  EXPECT_FALSE(parse_tokenizer_config("[]"));
  EXPECT_FALSE(parse_tokenizer_config("{"));
  EXPECT_EQ(parse_tokenizer_config(R"({"bos_token":5})").error().message,
            "tokenizer_config.json: 'bos_token' must be a string or an object with 'content'");
  EXPECT_FALSE(parse_tokenizer_config(R"({"add_bos_token":"yes"})"));
  EXPECT_FALSE(parse_tokenizer_config(R"({"chat_template":[{"name":"x"}]})"));
  const auto config =
      parse_tokenizer_config(R"({"chat_template":[{"name":"tool_use","template":"T"}]})").value();
  EXPECT_EQ(config.chat_template("tool_use"), "T");
  EXPECT_EQ(config.chat_template("default"), std::nullopt);
  const auto absent = parse_tokenizer_config(R"({"eos_token":"</s>"})").value();
  const auto tokenizer = Tokenizer::parse(dump_json(small_tokenizer()), absent);
  EXPECT_EQ(tokenizer.error().message,
            "tokenizer_config.json: eos_token '</s>' is not in the vocabulary");
}

TEST(Tokenizer, ManyThreadsShareOne) {
  const Tokenizer t = make(small_tokenizer());
  const Ids wanted = t.encode("hello <think> word é", {}).value();
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        EXPECT_EQ(t.encode("hello <think> word é", {}).value(), wanted);
      }
    });
  }
}

TEST(Detokenizer, HoldsUnfinishedCodePoints) {
  const Tokenizer t = make(small_tokenizer());
  Detokenizer d(t, true);
  EXPECT_EQ(d.push(98), "");        // E4
  EXPECT_EQ(d.push(99), "");        // BD
  EXPECT_EQ(d.push(110), "");       // special, skipped: it does not part the two
  EXPECT_EQ(d.push(97), "\u4F69");  // A9
  EXPECT_EQ(d.push(101), "he");
}

TEST(Detokenizer, InvalidAndUnfinishedBytes) {
  const Tokenizer t = make(small_tokenizer());
  Detokenizer d(t, false);
  EXPECT_EQ(d.push(97), "\uFFFD");  // A9 starts nothing
  EXPECT_EQ(d.push(96), "");        // C3 waits
  EXPECT_EQ(d.push('a' - 33), "\uFFFDa");
  EXPECT_EQ(d.push(96), "");
  EXPECT_EQ(d.held_bytes(), 1u);
  EXPECT_EQ(d.flush(), "\uFFFD");
  EXPECT_EQ(d.flush(), "");
}

TEST(Detokenizer, PromptsEnd) {
  const Tokenizer t = make(small_tokenizer());
  Detokenizer completes(t, true);
  completes.prime(Ids{101, 96});
  EXPECT_EQ(completes.push(97), "é");
  Detokenizer breaks(t, true);
  breaks.prime(Ids{101, 96});
  EXPECT_EQ(breaks.push('x' - 33), "x");
  Detokenizer ends(t, true);
  ends.prime(Ids{96, 110});
  EXPECT_EQ(ends.flush(), "");
}

// Random ids, one by one, give what decoding the whole gives.
TEST(Detokenizer, DeltasJoinToTheWhole) {
  const Tokenizer t = make(small_tokenizer());
  uint64_t state = 1;
  for (int round = 0; round < 2000; ++round) {
    Ids ids;
    for (int i = 0; i < 30; ++i) {
      state = state * 6364136223846793005ull + 1442695040888963407ull;
      ids.push_back(static_cast<int32_t>(90 + (state >> 33) % 24));
    }
    for (const bool skip : {false, true}) {
      Detokenizer d(t, skip);
      std::string joined;
      for (const int32_t id : ids) joined += d.push(id);
      ASSERT_EQ(joined + d.flush(), t.decode(ids, skip));
    }
  }
}

}  // namespace
}  // namespace tandem::text
