#pragma once
// Large zeroed memory straight from the operating system, on a wanted NUMA node and in wanted
// pages. For weights and KV pools: few, big, long-lived.

#include <cstddef>
#include <string>
#include <string_view>

#include "base/error.h"

namespace tandem::system {

enum class PageSize {
  kDefault,          // whatever the system does by itself
  kTransparentHuge,  // the kernel is asked for huge pages where it has them
  kHuge2M,           // reserved by the administrator (vm.nr_hugepages)
  kHuge1G,           // likewise, at boot
};

// The words of --huge-pages: "off", "thp", "2m", "1g".
const char* to_string(PageSize size);
Expected<PageSize> parse_page_size(std::string_view text);

// Owns the memory; movable. Any thread, one at a time.
class PageAllocation {
 public:
  PageAllocation() = default;
  PageAllocation(PageAllocation&& other) noexcept;
  PageAllocation& operator=(PageAllocation&& other) noexcept;
  ~PageAllocation();

  std::byte* data() const { return data_; }
  size_t size_bytes() const { return size_bytes_; }      // as asked
  size_t mapped_bytes() const { return mapped_bytes_; }  // whole pages
  PageSize page_size() const { return page_size_; }      // what it really is
  int numa_node() const { return numa_node_; }           // -1: not placed
  // Why something is less than what was asked; empty if nothing is. For the log.
  const std::string& note() const { return note_; }

 private:
  friend class PageAllocator;

  std::byte* data_ = nullptr;
  size_t size_bytes_ = 0;
  size_t mapped_bytes_ = 0;
  PageSize page_size_ = PageSize::kDefault;
  int numa_node_ = -1;
  std::string note_;
};

// At least 4 KiB aligned, zeroed. Falls back from 1g to 2m to thp to default, and from a node that
// cannot be chosen to none; page_size(), numa_node() and note() tell. The node is a preference:
// when it is full, pages come from another rather than ending the program. Reserved huge pages are
// touched here (a page at a time, in this thread), since a lack of them would otherwise be SIGBUS
// at first use; the others get their place when first written. Errors: kInvalidArgument (0 bytes,
// too many, a node that does not exist), kOutOfMemory.
Expected<PageAllocation> allocate_pages(size_t bytes, PageSize wanted, int numa_node = -1);

}  // namespace tandem::system
