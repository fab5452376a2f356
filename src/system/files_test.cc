#include "system/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "system/temporary_directory.h"

namespace tandem::system {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Files, ReadsUpToTheBound) {
  TemporaryDirectory folder;
  const std::string path = folder.write("a.txt", "hello");
  EXPECT_EQ(read_text_file(path, 5).value(), "hello");
  const auto longer = read_text_file(path, 4);
  ASSERT_FALSE(longer);
  EXPECT_EQ(longer.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(longer.error().message, HasSubstr(path));
  const std::string big(100000, 'x');
  EXPECT_EQ(read_text_file(folder.write("big", big), big.size()).value(), big);
  EXPECT_EQ(read_text_file(folder.write("empty", ""), 0).value(), "");
  EXPECT_THAT(read_text_file("/proc/self/status", 1 << 16).value(), HasSubstr("Threads:"));
}

TEST(Files, FollowsLinksAndRefusesWhatIsNoFile) {
  TemporaryDirectory folder;
  const std::string file = folder.write("a", "1");
  const std::string link = folder.path() + "/link";
  ASSERT_EQ(::symlink(file.c_str(), link.c_str()), 0);
  EXPECT_EQ(read_text_file(link, 10).value(), "1");
  const std::string pipe = folder.path() + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(read_text_file(pipe, 10).error().code, ErrorCode::kInvalidArgument);  // and no hang
  EXPECT_EQ(read_text_file(folder.path(), 10).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(read_text_file("/dev/zero", 10).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(read_text_file("", 10).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(read_text_file(file + std::string("\0x", 2), 10).error().code,
            ErrorCode::kInvalidArgument);
  const auto missing = read_text_file(folder.path() + "/no\nsuch", 10);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(missing.error().message.find('\n'), std::string::npos);
}

TEST(Files, LooksAtPaths) {
  TemporaryDirectory folder;
  const std::string b = folder.write("b", "");
  folder.write("a", "");
  EXPECT_TRUE(path_exists(b));
  EXPECT_TRUE(is_regular_file(b));
  EXPECT_FALSE(is_directory(b));
  EXPECT_TRUE(is_directory(folder.path()));
  EXPECT_FALSE(is_regular_file(folder.path()));
  EXPECT_FALSE(path_exists(folder.path() + "/c"));
  EXPECT_THAT(list_directory(folder.path()).value(), ElementsAre("a", "b"));
  EXPECT_FALSE(list_directory(folder.path(), 1));
  EXPECT_EQ(list_directory(folder.path() + "/c").error().code, ErrorCode::kNotFound);
}

TEST(Files, FindsTheProgramsFolder) {
  const auto folder = executable_directory();
  ASSERT_TRUE(folder);
  EXPECT_TRUE(is_directory(*folder));
  EXPECT_TRUE(folder->starts_with("/"));
}

}  // namespace
}  // namespace tandem::system
