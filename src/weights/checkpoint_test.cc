#include "weights/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "system/temporary_directory.h"
#include "weights/safetensors_test_util.h"

namespace tandem::weights {
namespace {

using ::testing::HasSubstr;
using testing::write_safetensors;

const std::string kOne = write_safetensors({{"one", "F32", {1}, "1111"}});
const std::string kTwo = write_safetensors({{"two", "F32", {1}, "2222"}});

void write_index(const system::TemporaryDirectory& dir, const std::string& map) {
  dir.write("model.safetensors.index.json", R"({"metadata":{},"weight_map":)" + map + "}");
}

void expect_error(const system::TemporaryDirectory& dir, const std::string& text) {
  const auto checkpoint = Checkpoint::open(dir.path());
  ASSERT_FALSE(checkpoint) << "accepted: " << text;
  EXPECT_THAT(checkpoint.error().to_line(), HasSubstr(text));
}

TEST(Checkpoint, ReadsSingleAndSharded) {
  const system::TemporaryDirectory dir;
  dir.write("a.safetensors", kOne);
  dir.write("b.safetensors", kTwo);
  write_index(dir, R"({"one":"a.safetensors","two":"b.safetensors"})");
  const auto sharded = Checkpoint::open(dir.path());
  ASSERT_TRUE(sharded) << sharded.error().to_line();
  EXPECT_EQ(sharded->files(), 2u);
  Scratch scratch;
  const auto two = sharded->read("two", scratch);
  ASSERT_TRUE(two);
  EXPECT_EQ(std::memcmp(two->data, "2222", 4), 0);
  sharded->release(*two);
  EXPECT_FALSE(sharded->find("three"));

  dir.write("model.safetensors", kOne);
  EXPECT_EQ(Checkpoint::open(dir.path())->names().size(), 1u);
}

TEST(Checkpoint, MisalignedTensorIsCopied) {
  const system::TemporaryDirectory dir;
  dir.write("model.safetensors",
            write_safetensors({{"a", "U8", {1}, "x"}, {"b", "F32", {1}, "abcd"}}));
  const auto checkpoint = Checkpoint::open(dir.path());
  ASSERT_TRUE(checkpoint);
  Scratch scratch;
  const auto view = checkpoint->read("b", scratch);
  ASSERT_TRUE(view);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(view->data) % 4, 0u);
  EXPECT_EQ(std::memcmp(view->data, "abcd", 4), 0);
}

TEST(Checkpoint, NamesWhatIsWrong) {
  const system::TemporaryDirectory dir;
  expect_error(dir, "holds neither model.safetensors nor");
  dir.write("a.safetensors", kOne);
  write_index(dir, R"({"one":"a.safetensors","two":"b.safetensors"})");
  expect_error(dir, "missing, with 1 tensors: 'b.safetensors'");
  dir.write("b.safetensors", kOne);
  expect_error(dir, "tensor 'one' stands in two files");
  dir.write("b.safetensors", write_safetensors({{"other", "F32", {1}, "1111"}}));
  expect_error(dir, "puts tensor 'two' into 'b.safetensors', which does not hold it");
  dir.write("b.safetensors",
            write_safetensors({{"other", "F32", {1}, "1111"}, {"two", "F32", {1}, "1111"}}));
  expect_error(dir, "holds tensor 'other', which model.safetensors.index.json does not know");
  write_index(dir, R"({"one":"b.safetensors","two":"a.safetensors","other":"b.safetensors"})");
  expect_error(dir, "(another file does)");
  write_index(dir, R"({"one":"../a.safetensors"})");
  expect_error(dir, "a file beside it");
  write_index(dir, "[]");
  expect_error(dir, "'weight_map' must be an object");
  write_index(dir, "{}");
  expect_error(dir, "lists no tensors");
  dir.write("model.safetensors.index.json", "{");
  expect_error(dir, "not valid JSON");
  dir.write("model.safetensors", "");
  expect_error(dir, "model.safetensors");
}

}  // namespace
}  // namespace tandem::weights
