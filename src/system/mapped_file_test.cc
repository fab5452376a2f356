#include "system/mapped_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "system/process_info.h"
#include "system/temporary_directory.h"

namespace tandem::system {
namespace {

TEST(MappedFile, ShowsTheBytesThroughALink) {
  TemporaryDirectory folder;
  const std::string content = std::string(10000, 'a') + "end";
  const std::string path = folder.write("weights", content);
  const std::string link = folder.path() + "/link";
  ASSERT_EQ(::symlink(path.c_str(), link.c_str()), 0);
  auto file = MappedFile::open(link);
  ASSERT_TRUE(file) << file.error().to_line();
  ASSERT_EQ(file->bytes().size(), content.size());
  EXPECT_EQ(std::memcmp(file->bytes().data(), content.data(), content.size()), 0);
  const MappedFile moved = std::move(*file);
  EXPECT_EQ(moved.path(), link);
  EXPECT_EQ(static_cast<char>(moved.range(10000, 3).value()[0]), 'e');
  EXPECT_TRUE(file->bytes().empty());
}

TEST(MappedFile, RangesNeverLeaveTheFile) {
  TemporaryDirectory folder;
  const auto file = MappedFile::open(folder.write("f", "12345")).value();
  EXPECT_EQ(file.range(0, 5).value().size(), 5u);
  EXPECT_EQ(file.range(5, 0).value().size(), 0u);
  for (const auto& [offset, size] : {std::pair<uint64_t, uint64_t>{0, 6},
                                     {6, 0},
                                     {1, UINT64_MAX},
                                     {UINT64_MAX, 1},
                                     {UINT64_MAX, UINT64_MAX}}) {
    const auto range = file.range(offset, size);
    ASSERT_FALSE(range);
    EXPECT_EQ(range.error().code, ErrorCode::kCorruptData);
    EXPECT_THAT(range.error().message, testing::HasSubstr(file.path()));
  }
}

TEST(MappedFile, AdviceOfAnyRangeKeepsTheContent) {
  TemporaryDirectory folder;
  const std::string content(50000, 'x');
  const auto file = MappedFile::open(folder.write("f", content)).value();
  for (const FileAdvice advice :
       {FileAdvice::kSequential, FileAdvice::kWillNeed, FileAdvice::kDontNeed}) {
    for (const auto& [offset, size] : {std::pair<uint64_t, uint64_t>{0, UINT64_MAX},
                                       {1, 1},
                                       {4097, 9000},
                                       {49999, 1},
                                       {50000, 1},
                                       {UINT64_MAX, UINT64_MAX}})
      file.advise(advice, offset, size);
  }
  EXPECT_EQ(std::memcmp(file.bytes().data(), content.data(), content.size()), 0);
}

TEST(MappedFile, RefusesWhatCannotBeMappedAndNamesIt) {
  TemporaryDirectory folder;
  const std::string pipe = folder.path() + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const std::string empty = folder.write("empty", "");
  const std::string absent = folder.path() + "/absent";
  const std::pair<std::string, ErrorCode> cases[] = {{pipe, ErrorCode::kInvalidArgument},
                                                     {folder.path(), ErrorCode::kInvalidArgument},
                                                     {"/dev/null", ErrorCode::kInvalidArgument},
                                                     {empty, ErrorCode::kCorruptData},
                                                     {absent, ErrorCode::kNotFound}};
  for (const auto& [path, code] : cases) {
    const auto file = MappedFile::open(path);
    ASSERT_FALSE(file) << path;
    EXPECT_EQ(file.error().code, code) << path;
    EXPECT_THAT(file.error().message, testing::HasSubstr(path));
  }
}

TEST(MappedFile, NoticesAFileThatWasCut) {
  TemporaryDirectory folder;
  const std::string path = folder.write("f", std::string(9000, 'x'));
  const auto file = MappedFile::open(path).value();
  EXPECT_TRUE(file.check_unchanged());
  ASSERT_EQ(::truncate(path.c_str(), 10), 0);
  EXPECT_EQ(file.check_unchanged().error().code, ErrorCode::kCorruptData);
}

TEST(MappedFile, ClosesWhatItOpened) {
  TemporaryDirectory folder;
  const std::string path = folder.write("f", "1");
  const int before = read_process_info().value().open_files;
  {
    auto first = MappedFile::open(path).value();
    auto second = MappedFile::open(path).value();
    first = std::move(second);
    EXPECT_EQ(read_process_info().value().open_files, before + 2);
  }
  EXPECT_EQ(read_process_info().value().open_files, before);
}

}  // namespace
}  // namespace tandem::system
