// Speed of tokenizers, of the detokenizer and of chat templates, one thread.
//   tokenizer_bench [FOLDER_WITH_TOKENIZER_JSON ...]   (none: the bundled model's)
// Wanted: >= 5 MB/s on mixed text; one megabyte of one letter in under a second.

#include <benchmark/benchmark.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "text/chat_template.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace {

using tandem::text::ChatTemplate;
using tandem::text::Detokenizer;
using tandem::text::Tokenizer;
using tandem::text::TokenizerConfig;

struct Loaded {
  std::string name;
  std::string json;
  TokenizerConfig config;
  Tokenizer tokenizer;
};

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

std::string repeated(std::string_view part, size_t bytes) {
  std::string out;
  while (out.size() < bytes) out += part;
  return out;
}

std::string english() {
  return repeated(
      "The quick brown fox jumps over the lazy dog's back at 12:45 p.m., and nobody was surprised; "
      "tokenization of 1,234,567 words isn't free!\n\n    for (int i = 0; i < n; ++i) { sum += "
      "a[i]; }  // bfloat16 MLA\nInternationalization, DeepSeek-V3, getHTTPResponseCode2XX.\n",
      1 << 20);
}

std::string mixed() {
  return repeated(
      "深度求索发布了新的大语言模型，参数量为6710亿。日本語の文章です。한국어 문장입니다. "
      "Привет, мир! Ёлки-палки. مرحبا بالعالم! 👩🏽‍💻 "
      "coding "
      "e\u0301 "
      "ﬁ "
      "{\"key\": [1, 2.5, null]}\r\nfoo_bar(x) => x ** 2\n",
      1 << 20);
}

void encode(benchmark::State& state, const Loaded* loaded, const std::string* text) {
  size_t ids = 0;
  for (auto _ : state) ids = loaded->tokenizer.encode(*text, {}).value().size();
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * text->size()));
  state.counters["ids"] = static_cast<double>(ids);
}

void detokenize(benchmark::State& state, const Loaded* loaded, const std::string* text) {
  const auto ids = loaded->tokenizer.encode(*text, {}).value();
  for (auto _ : state) {
    Detokenizer detokenizer(loaded->tokenizer, true);
    for (const int32_t id : ids) benchmark::DoNotOptimize(detokenizer.push(id));
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * ids.size()));
}

void load(benchmark::State& state, const Loaded* loaded) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(Tokenizer::parse(loaded->json, loaded->config).has_value());
  }
}

void render(benchmark::State& state, const Loaded* loaded) {
  const auto chat = ChatTemplate::parse(loaded->config.chat_template("default").value()).value();
  tandem::OrderedJson variables = {{"messages", tandem::OrderedJson::array()},
                                   {"tools", nullptr},
                                   {"add_generation_prompt", true}};
  for (int i = 0; i < 20; ++i) {
    variables["messages"].push_back(
        {{"role", i % 2 ? "assistant" : "user"}, {"content", std::string(500, 'x')}});
  }
  const tandem::SteadyClock clock;
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        chat.render({&variables, loaded->config.special_tokens, {}}, clock).value().size());
  }
}

bool register_all(const std::string& folder, std::vector<std::unique_ptr<Loaded>>& all) {
  const std::string json = read_file(folder + "/tokenizer.json");
  auto config = tandem::text::parse_tokenizer_config(read_file(folder + "/tokenizer_config.json"));
  if (!config)
    return std::printf("%s: %s\n", folder.c_str(), config.error().message.c_str()), false;
  auto tokenizer = Tokenizer::parse(json, *config);
  if (!tokenizer) {
    return std::printf("%s: %s\n", folder.c_str(), tokenizer.error().message.c_str()), false;
  }
  const std::string name = folder.substr(folder.find_last_of('/', folder.size() - 2) + 1);
  all.push_back(
      std::make_unique<Loaded>(Loaded{name, json, *std::move(config), *std::move(tokenizer)}));
  const Loaded* loaded = all.back().get();
  static const std::string kTexts[] = {english(), mixed(), std::string(1 << 20, 'a')};
  const char* const names[] = {"english", "mixed", "one_letter"};
  for (size_t i = 0; i < 3; ++i) {
    benchmark::RegisterBenchmark((name + "/encode/" + names[i]).c_str(), encode, loaded, &kTexts[i])
        ->Unit(benchmark::kMillisecond);
  }
  benchmark::RegisterBenchmark((name + "/detokenize").c_str(), detokenize, loaded, &kTexts[0])
      ->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark((name + "/load").c_str(), load, loaded)
      ->Unit(benchmark::kMillisecond);
  if (loaded->config.chat_template("default")) {
    benchmark::RegisterBenchmark((name + "/render_20_messages").c_str(), render, loaded)
        ->Unit(benchmark::kMicrosecond);
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  std::vector<std::unique_ptr<Loaded>> all;
  std::vector<std::string> folders(argv + 1, argv + argc);
  if (folders.empty()) folders.push_back(TANDEM_SOURCE_DIR "/models/tandem-tiny-v3");
  for (const std::string& folder : folders) {
    if (!register_all(folder, all)) return 1;
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
