// Wrong checkpoints: each is refused with one line that says what is wrong.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "support/golden.h"
#include "support/model_runner.h"
#include "system/temporary_directory.h"

namespace tandem::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

std::string read_file(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// A copy of the small fp8 checkpoint that a test may spoil.
class BadFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto golden = golden_checkpoint("deepseek_v3_fp8");
    ASSERT_TRUE(golden);
    for (const auto& entry : fs::directory_iterator(*golden)) {
      directory_.write(entry.path().filename().string(), read_file(entry.path()));
    }
  }
  fs::path path(const std::string& name) const { return fs::path(directory_.path()) / name; }
  // Replaces the first `from` in a file by `to` of the same length or, in JSON files, any.
  void replace(const std::string& name, const std::string& from, const std::string& to) {
    std::string content = read_file(path(name));
    const size_t at = content.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    content.replace(at, from.size(), to);
    directory_.write(name, content);
  }
  std::string error() const {
    auto machine = start_machine(directory_.path(), {.max_tokens = 8, .kv_blocks = 1});
    EXPECT_FALSE(machine);
    const std::string line = machine ? "" : machine.error().to_line();
    EXPECT_EQ(line.find('\n'), std::string::npos);
    return line;
  }

  const std::string first_ = "model-00001-of-00002.safetensors";
  const std::string second_ = "model-00002-of-00002.safetensors";
  system::TemporaryDirectory directory_;
};

TEST_F(BadFiles, CutByAByteOrAMegabyte) {
  const auto size = fs::file_size(path(first_));
  fs::resize_file(path(first_), size - 1);
  EXPECT_THAT(error(), AllOf(HasSubstr(first_), HasSubstr("wants data bytes")));
  fs::resize_file(path(first_), 7);
  EXPECT_THAT(error(), AllOf(HasSubstr(first_), HasSubstr("too short")));
  fs::resize_file(path(first_), 0);
  EXPECT_THAT(error(), HasSubstr(first_));
}

TEST_F(BadFiles, MissingOrSwappedShards) {
  fs::rename(path(first_), path("x"));
  EXPECT_THAT(error(), AllOf(HasSubstr(first_), HasSubstr("missing")));
  fs::rename(path(second_), path(first_));
  fs::rename(path("x"), path(second_));
  EXPECT_THAT(error(), HasSubstr("which does not hold it (another file does)"));
}

TEST_F(BadFiles, ShapesThatDoNotFitTheConfig) {
  replace("config.json", "\"hidden_size\": 160", "\"hidden_size\": 161");
  EXPECT_THAT(error(),
              AllOf(HasSubstr("tensor 'model.embed_tokens.weight' has shape [512, 160]"),
                    HasSubstr("wants [512, 161]")));
}

TEST_F(BadFiles, LyingHeaders) {
  replace(first_, "\"shape\":[512,160]", "\"shape\":[512,161]");
  EXPECT_THAT(error(),
              AllOf(HasSubstr("model.embed_tokens.weight"), HasSubstr("its offsets give")));
}

TEST_F(BadFiles, TensorsMoreOrLessThanTheModelWants) {
  replace("config.json", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1");
  replace("config.json", "\"num_nextn_predict_layers\": 1", "\"num_nextn_predict_layers\": 0");
  EXPECT_THAT(error(), HasSubstr("does not use"));
  replace("config.json", "\"num_hidden_layers\": 1", "\"num_hidden_layers\": 4");
  EXPECT_THAT(error(), AllOf(HasSubstr("is missing from the checkpoint"), HasSubstr("layers.3")));
}

TEST_F(BadFiles, UnknownArchitecture) {
  replace("config.json", "DeepseekV3ForCausalLM", "MambaForCausalLM");
  EXPECT_THAT(error(),
              AllOf(HasSubstr("architecture 'MambaForCausalLM' is not supported"),
                    HasSubstr("DeepseekV3ForCausalLM")));
  directory_.write("config.json", "{");
  EXPECT_THAT(error(), AllOf(HasSubstr("config.json"), HasSubstr("not valid JSON")));
  fs::remove(path("config.json"));
  EXPECT_THAT(error(), HasSubstr("config.json"));
}

// A NaN in the embedding of one token ends the requests that read it, and no others.
TEST_F(BadFiles, NanReachesOnlyItsOwnRows) {
  std::string content = read_file(path(first_));
  const auto tensors = weights::parse_safetensors(std::as_bytes(std::span(content)), first_);
  ASSERT_TRUE(tensors);
  for (const weights::NamedTensor& t : *tensors) {
    if (t.name != "model.embed_tokens.weight") continue;
    const size_t offset = static_cast<size_t>(t.view.as<char>() - content.data());
    content.replace(offset + 5 * 160 * 2, 2, "\xff\x7f");  // bf16 NaN in the row of token 5
  }
  directory_.write(first_, content);
  auto machine = start_machine(directory_.path(), {.max_tokens = 8, .kv_blocks = 4});
  ASSERT_TRUE(machine) << machine.error().to_line();
  BlockSource blocks(4);
  TestSequence good;
  TestSequence bad;
  TestBatch batch(blocks);
  batch.add(good, {4, 6}, false);
  batch.add(bad, {4, 5}, false);
  const StepOutput output = run_step(*machine, batch);
  ASSERT_EQ(output.result.rows.size(), 2u);
  EXPECT_EQ(output.result.rows[0].invalid, 0);
  EXPECT_EQ(output.result.rows[1].invalid, 1);
}

// Folders of models that are not supported yet are refused by name, not run wrongly.
TEST(UnsupportedGoldens, AreRefusedByName) {
  for (const char* name : {"deepseek_v1_moe",
                           "deepseek_v32",
                           "qwen2_tied",
                           "qwen3",
                           "qwen3_yarn",
                           "llama_awq",
                           "llama_gptq_sym",
                           "llama_w4a16",
                           "llama_w8a8_int8",
                           "gguf_llama_q4_k_m",
                           "gguf_deepseek2_lite_q4_0"}) {
    const std::string directory =
        std::string(TANDEM_SOURCE_DIR) + "/tests/golden/checkpoints/" + name;
    ASSERT_TRUE(fs::exists(directory)) << name;
    const auto machine = start_machine(directory, {.max_tokens = 8, .kv_blocks = 1});
    ASSERT_FALSE(machine) << name;
    EXPECT_EQ(machine.error().to_line().find('\n'), std::string::npos);
    std::printf("[          ] %s\n", machine.error().to_line().c_str());
  }
}

}  // namespace
}  // namespace tandem::testing
