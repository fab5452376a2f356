#include "system/pages.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <numa.h>
#include <numaif.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <utility>

#include "base/log.h"
#include "system/files.h"
#include "system/os_error.h"

namespace tandem::system {

namespace {

constexpr size_t kMaxBytes = size_t{1} << 47;  // the address space of a process (4-level tables)
constexpr size_t k2M = size_t{1} << 21;
constexpr size_t k1G = size_t{1} << 30;
// Page size as its logarithm in the flags of mmap: mmap(2), MAP_HUGE_SHIFT.
constexpr int kHugeShift = 26;

constexpr const char* kThpEnabled = "/sys/kernel/mm/transparent_hugepage/enabled";
constexpr const char* kThpBytes = "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size";

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

size_t base_page_bytes() { return static_cast<size_t>(::sysconf(_SC_PAGESIZE)); }

// 2 MiB with 4 KiB base pages; 512 MiB on Arm with 64 KiB ones.
size_t transparent_page_bytes() {
  const auto text = read_text_file(kThpBytes, 64);
  size_t bytes = 0;
  if (text) std::from_chars(text->data(), text->data() + text->size(), bytes);
  const bool sane = bytes >= base_page_bytes() && bytes <= k1G && (bytes & (bytes - 1)) == 0;
  return sane ? bytes : k2M;
}

bool transparent_pages_forbidden() {
  const auto text = read_text_file(kThpEnabled, 256);
  return !text || text->find("[never]") != std::string::npos;
}

void add_note(std::string& note, std::string_view text) {
  if (!note.empty()) note += "; ";
  note += text;
}

// Makes the kernel write one byte of each page. Unlike a store from here, a page that cannot be had
// is then an error (EFAULT), not a signal; and it works on kernels before MADV_POPULATE_WRITE
// (5.14).
bool touch_pages(std::byte* data, size_t bytes, size_t page_bytes) {
  const UniqueFd zeros(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  if (!zeros.valid()) return false;
  for (size_t offset = 0; offset < bytes; offset += page_bytes) {
    if (::read(zeros.get(), data + offset, 1) != 1) return false;
  }
  return true;
}

}  // namespace

const char* to_string(PageSize size) {
  switch (size) {
    case PageSize::kDefault:
      return "off";
    case PageSize::kTransparentHuge:
      return "thp";
    case PageSize::kHuge2M:
      return "2m";
    case PageSize::kHuge1G:
      return "1g";
  }
  return "unknown";
}

Expected<PageSize> parse_page_size(std::string_view text) {
  for (const PageSize size :
       {PageSize::kDefault, PageSize::kTransparentHuge, PageSize::kHuge2M, PageSize::kHuge1G}) {
    if (text == to_string(size)) return size;
  }
  return fail(ErrorCode::kInvalidArgument,
              "huge pages '{}' is not one of off, thp, 2m, 1g",
              log_safe(text));
}

PageAllocation::PageAllocation(PageAllocation&& other) noexcept { *this = std::move(other); }

PageAllocation& PageAllocation::operator=(PageAllocation&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  std::swap(mapped_bytes_, other.mapped_bytes_);
  std::swap(page_size_, other.page_size_);
  std::swap(numa_node_, other.numa_node_);
  std::swap(note_, other.note_);
  return *this;
}

PageAllocation::~PageAllocation() {
  if (data_ != nullptr) ::munmap(data_, mapped_bytes_);
}

// Fills a PageAllocation step by step.
class PageAllocator {
 public:
  PageAllocator(size_t bytes, int numa_node) : bytes_(bytes), numa_node_(numa_node) {}

  Expected<PageAllocation> allocate(PageSize wanted) {
    if (wanted == PageSize::kHuge1G && try_reserved(PageSize::kHuge1G, k1G)) return take();
    if (wanted >= PageSize::kHuge2M && try_reserved(PageSize::kHuge2M, k2M)) return take();
    TANDEM_TRY(map_ordinary(wanted != PageSize::kDefault));
    return take();
  }

 private:
  Expected<PageAllocation> take() { return std::move(result_); }

  bool try_reserved(PageSize size, size_t page_bytes) {
    const size_t mapped_bytes = round_up(bytes_, page_bytes);
    const int log2_bytes = size == PageSize::kHuge1G ? 30 : 21;
    void* data = ::mmap(nullptr,
                        mapped_bytes,
                        PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | (log2_bytes << kHugeShift),
                        -1,
                        0);
    if (data == MAP_FAILED) {
      add_note(result_.note_,
               fmt::format(
                   "{} pages of {} are not reserved", mapped_bytes / page_bytes, to_string(size)));
      return false;
    }
    hold(data, mapped_bytes, size);
    place();
    if (touch_pages(result_.data_, mapped_bytes, page_bytes)) return true;
    std::string note = std::move(result_.note_);
    add_note(note,
             fmt::format("the system does not give {} pages of {} to this process",
                         mapped_bytes / page_bytes,
                         to_string(size)));
    result_ = PageAllocation();
    result_.note_ = std::move(note);
    return false;
  }

  Expected<void> map_ordinary(bool transparent) {
    const size_t align = transparent ? transparent_page_bytes() : base_page_bytes();
    // Small pieces gain nothing from huge pages and would waste most of one.
    const bool huge = transparent && bytes_ >= align;
    const size_t unit = huge ? align : base_page_bytes();
    const size_t mapped_bytes = round_up(bytes_, unit);
    // Address space for the alignment; what is left over is given back at once.
    const size_t slack = unit - base_page_bytes();
    void* raw = ::mmap(
        nullptr, mapped_bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED) {
      return fail(ErrorCode::kOutOfMemory, "no memory for an allocation of {} bytes", bytes_);
    }
    auto* start = static_cast<std::byte*>(raw);
    const size_t before =
        round_up(reinterpret_cast<uintptr_t>(start), unit) - reinterpret_cast<uintptr_t>(start);
    if (before > 0) ::munmap(start, before);
    if (slack > before) ::munmap(start + before + mapped_bytes, slack - before);
    hold(start + before, mapped_bytes, PageSize::kDefault);
    if (huge) ask_for_huge_pages();
    if (transparent && !huge) add_note(result_.note_, "smaller than a huge page");
    place();
    return {};
  }

  void ask_for_huge_pages() {
    if (transparent_pages_forbidden()) {
      add_note(result_.note_, "transparent huge pages are switched off on this system");
    } else if (::madvise(result_.data_, result_.mapped_bytes_, MADV_HUGEPAGE) != 0) {
      add_note(result_.note_, "the system refuses transparent huge pages");
    } else {
      result_.page_size_ = PageSize::kTransparentHuge;
    }
  }

  void hold(void* data, size_t mapped_bytes, PageSize size) {
    result_.data_ = static_cast<std::byte*>(data);
    result_.size_bytes_ = bytes_;
    result_.mapped_bytes_ = mapped_bytes;
    result_.page_size_ = size;
  }

  void place() {
    if (numa_node_ < 0) return;
    constexpr size_t kBits = 8 * sizeof(unsigned long);
    unsigned long mask[1024 / kBits] = {};
    mask[static_cast<size_t>(numa_node_) / kBits] |= 1UL
                                                     << (static_cast<size_t>(numa_node_) % kBits);
    // maxnode counts one more than the kernel uses: mbind(2), notes.
    if (::numa_available() < 0 ||
        ::mbind(result_.data_, result_.mapped_bytes_, MPOL_PREFERRED, mask, 1024 + 1, 0) != 0) {
      add_note(result_.note_,
               fmt::format("the system does not let memory be placed on node {}", numa_node_));
      return;
    }
    result_.numa_node_ = numa_node_;
  }

  const size_t bytes_;
  const int numa_node_;
  PageAllocation result_;
};

Expected<PageAllocation> allocate_pages(size_t bytes, PageSize wanted, int numa_node) {
  if (bytes == 0 || bytes > kMaxBytes) {
    return fail(ErrorCode::kInvalidArgument, "cannot allocate {} bytes", bytes);
  }
  if (numa_node < -1 || numa_node >= 1024 ||
      (numa_node >= 0 && ::numa_available() >= 0 &&
       ::numa_bitmask_isbitset(numa_all_nodes_ptr, static_cast<unsigned>(numa_node)) == 0)) {
    return fail(ErrorCode::kInvalidArgument, "there is no usable NUMA node {}", numa_node);
  }
  return PageAllocator(bytes, numa_node).allocate(wanted);
}

}  // namespace tandem::system
