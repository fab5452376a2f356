#include "system/pages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "system/topology.h"

namespace tandem::system {
namespace {

class PagesOfSize : public testing::TestWithParam<PageSize> {};

TEST_P(PagesOfSize, GivesZeroedWritableMemoryAndTellsWhatItIs) {
  const size_t bytes = (size_t{5} << 20) + 3;
  auto pages = allocate_pages(bytes, GetParam());
  ASSERT_TRUE(pages) << pages.error().to_line();
  EXPECT_EQ(pages->size_bytes(), bytes);
  EXPECT_GE(pages->mapped_bytes(), bytes);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(pages->data()) % 4096, 0u);
  EXPECT_LE(pages->page_size(), GetParam());  // never more than was asked
  EXPECT_EQ(pages->note().empty(), pages->page_size() == GetParam()) << pages->note();
  if (pages->page_size() == PageSize::kTransparentHuge) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(pages->data()) % (size_t{2} << 20), 0u);
  }
  EXPECT_TRUE(std::all_of(
      pages->data(), pages->data() + bytes, [](std::byte b) { return b == std::byte{0}; }));
  std::memset(pages->data(), 1, pages->mapped_bytes());
  RecordProperty("page_size", to_string(pages->page_size()));
}

INSTANTIATE_TEST_SUITE_P(All,
                         PagesOfSize,
                         testing::Values(PageSize::kDefault,
                                         PageSize::kTransparentHuge,
                                         PageSize::kHuge2M,
                                         PageSize::kHuge1G));

TEST(Pages, SmallPiecesStaySmall) {
  const auto pages = allocate_pages(1, PageSize::kTransparentHuge).value();
  EXPECT_EQ(pages.page_size(), PageSize::kDefault);
  EXPECT_LE(pages.mapped_bytes(), size_t{64} << 10);
  EXPECT_FALSE(pages.note().empty());
}

TEST(Pages, PlacesOnANodeOrSaysWhyNot) {
  const int node = read_topology().nodes.front().id;
  const auto pages = allocate_pages(size_t{1} << 20, PageSize::kDefault, node).value();
  EXPECT_EQ(pages.numa_node() == node, pages.note().empty()) << pages.note();
  std::memset(pages.data(), 1, pages.size_bytes());
}

TEST(Pages, MovesItsMemory) {
  auto first = allocate_pages(5000, PageSize::kDefault).value();
  std::byte* data = first.data();
  PageAllocation second = std::move(first);
  EXPECT_EQ(second.data(), data);
  EXPECT_EQ(first.data(), nullptr);
  second = allocate_pages(5000, PageSize::kDefault).value();
  EXPECT_NE(second.data(), nullptr);
}

TEST(Pages, RefusesImpossibleRequests) {
  EXPECT_EQ(allocate_pages(0, PageSize::kDefault).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(allocate_pages(SIZE_MAX, PageSize::kHuge1G).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(allocate_pages(size_t{1} << 47, PageSize::kTransparentHuge).error().code,
            ErrorCode::kOutOfMemory);
  EXPECT_EQ(allocate_pages(1, PageSize::kDefault, 1024).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(allocate_pages(1, PageSize::kDefault, -2).error().code, ErrorCode::kInvalidArgument);
}

TEST(Pages, NamesRoundTrip) {
  for (const PageSize size :
       {PageSize::kDefault, PageSize::kTransparentHuge, PageSize::kHuge2M, PageSize::kHuge1G})
    EXPECT_EQ(parse_page_size(to_string(size)).value(), size);
  EXPECT_FALSE(parse_page_size("4k"));
}

}  // namespace
}  // namespace tandem::system
