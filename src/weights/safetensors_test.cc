#include "weights/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "weights/safetensors_test_util.h"

namespace tandem::weights {
namespace {

using ::testing::HasSubstr;
using testing::with_header;
using testing::write_safetensors;

Expected<std::vector<NamedTensor>> parse(const std::string& file) {
  return parse_safetensors(std::as_bytes(std::span(file)), "x.safetensors");
}

std::string good_file() {
  return write_safetensors({{"b", "F32", {2, 3}, std::string(24, '\1')},
                            {"a", "F8_E4M3", {5}, "hello"},
                            {"empty", "BF16", {0, 4}, ""},
                            {"scalar", "I64", {}, std::string(8, '\2')}});
}

TEST(Safetensors, ReadsNamesShapesAndBytes) {
  const std::string file = good_file();
  const auto tensors = parse(file);
  ASSERT_TRUE(tensors) << tensors.error().to_line();
  ASSERT_EQ(tensors->size(), 4u);
  EXPECT_EQ((*tensors)[0].name, "b");
  EXPECT_EQ((*tensors)[0].view.shape, (tensor::Shape{2, 3}));
  EXPECT_EQ((*tensors)[1].view.dtype, tensor::DType::kF8E4M3);
  EXPECT_EQ(std::string((*tensors)[1].view.as<char>(), 5), "hello");
}

void expect_error(const std::string& file, const std::string& text) {
  const auto tensors = parse(file);
  ASSERT_FALSE(tensors) << "accepted: " << text;
  EXPECT_THAT(tensors.error().message, HasSubstr(text));
  EXPECT_THAT(tensors.error().message, HasSubstr("x.safetensors"));
  EXPECT_EQ(tensors.error().message.find('\n'), std::string::npos);
}

TEST(Safetensors, RefusesCutFiles) {
  const std::string file = good_file();
  for (size_t bytes = 0; bytes < file.size(); ++bytes) {
    EXPECT_FALSE(parse(file.substr(0, bytes))) << bytes;
  }
  expect_error(file.substr(0, file.size() - 1), "tensor 'scalar' wants data bytes [29, 37)");
  expect_error(file + "x", "its tensors take 37 data bytes, the file holds 38");
}

TEST(Safetensors, RefusesLies) {
  const auto lie = [](const std::string& entry, const std::string& text) {
    expect_error(with_header("{\"t\":" + entry + "}", std::string(8, 'x')), text);
  };
  lie(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})", "want 12 bytes, its offsets give 8");
  lie(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})", "wants data bytes [8, 0)");
  lie(R"({"dtype":"F32","shape":[2],"data_offsets":[0,1e3]})", "two whole numbers");
  lie(R"({"dtype":"F32","shape":[2],"data_offsets":[0,18446744073709551615]})", "the file holds 8");
  lie(R"({"dtype":"F32","shape":[9223372036854775807,4],"data_offsets":[0,8]})", "overflows");
  lie(R"({"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]})", "overflows");
  lie(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})", "whole numbers from 0");
  lie(R"({"dtype":"F32","shape":[1,1,1,1,2],"data_offsets":[0,8]})", "5 dimensions");
  lie(R"({"dtype":"F4","shape":[2],"data_offsets":[0,8]})", "dtype 'F4'");
  lie(R"({"shape":[2],"data_offsets":[0,8]})", "'dtype'");
  lie("[]", "must be an object");
  lie(R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})", "leave a hole");
}

TEST(Safetensors, RefusesOverlapsDuplicatesAndBadHeaders) {
  const std::string one = R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  expect_error(with_header("{\"a\":" + one + ",\"b\":" + one + "}", std::string(8, 'x')),
               "overlap");
  expect_error(with_header("{\"a\":" + one + ",\"a\":" + one + "}", std::string(8, 'x')),
               "stands twice");
  expect_error(with_header("{\"a\":" + one, std::string(8, 'x')), "not valid JSON");
  expect_error(with_header("[]", ""), "not a JSON object");
  expect_error(with_header("{\"a\":" + std::string(100, '[') + std::string(100, ']') + "}", ""),
               "nested deeper");
  expect_error(std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10), "header claims");
  expect_error("short", "too short");
  EXPECT_TRUE(parse(with_header(R"({"__metadata__":{"format":"pt"}})", "")));
}

// Any single changed byte of the header is refused or read without touching foreign memory.
TEST(Safetensors, ManyTensorsTakeTimeInProportion) {
  // A parser that looks through all siblings of each entry takes minutes for these.
  std::string header = "{";
  constexpr int kTensors = 200'000;
  for (int i = 0; i < kTensors; ++i) {
    header += "\"t" + std::to_string(i) + R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)";
  }
  header.back() = '}';
  const auto begin = std::chrono::steady_clock::now();
  const auto tensors = parse(with_header(header, ""));
  ASSERT_TRUE(tensors) << tensors.error().to_line();
  EXPECT_EQ(tensors->size(), static_cast<size_t>(kTensors));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

TEST(Safetensors, SurvivesFlippedBytes) {
  const std::string file = good_file();
  for (size_t i = 0; i < file.size(); ++i) {
    for (const int bit : {0, 1, 5, 7}) {
      std::string changed = file;
      changed[i] = static_cast<char>(changed[i] ^ (1 << bit));
      const auto tensors = parse(changed);
      if (!tensors) continue;
      for (const NamedTensor& t : *tensors) {
        const auto* begin = t.view.as<char>();
        EXPECT_GE(begin, changed.data());
        EXPECT_LE(begin + t.view.bytes(), changed.data() + changed.size());
      }
    }
  }
}

}  // namespace
}  // namespace tandem::weights
