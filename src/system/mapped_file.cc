#include "system/mapped_file.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

#include "base/log.h"
#include "system/files.h"
#include "system/os_error.h"

namespace tandem::system {

namespace {

int64_t modified_ns(const struct stat& status) {
  return int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

}  // namespace

Expected<MappedFile> MappedFile::open(const std::string& path) {
  MappedFile file;
  file.path_ = path;
  TANDEM_ASSIGN(file.fd_, open_regular_file(path));
  struct stat status{};
  if (::fstat(file.fd_.get(), &status) != 0) {
    return fail_errno(errno, "cannot examine file '{}'", log_safe(path));
  }
  if (status.st_size <= 0) {
    return fail(ErrorCode::kCorruptData, "file '{}' is empty", log_safe(path));
  }
  file.modified_ns_ = modified_ns(status);
  const auto size_bytes = static_cast<size_t>(status.st_size);
  void* data = ::mmap(nullptr, size_bytes, PROT_READ, MAP_SHARED, file.fd_.get(), 0);
  if (data == MAP_FAILED) {
    return fail_errno(errno, "cannot map the {} bytes of file '{}'", size_bytes, log_safe(path));
  }
  file.data_ = static_cast<const std::byte*>(data);
  file.size_bytes_ = size_bytes;
  TANDEM_TRY(file.check_unchanged());
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::move(other.fd_)),
      data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)),
      modified_ns_(other.modified_ns_) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  std::swap(modified_ns_, other.modified_ns_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_bytes_);
}

Expected<std::span<const std::byte>> MappedFile::range(uint64_t offset_bytes,
                                                       uint64_t size_bytes) const {
  if (offset_bytes > size_bytes_ || size_bytes > size_bytes_ - offset_bytes) {
    return fail(ErrorCode::kCorruptData,
                "file '{}' has {} bytes, but {} bytes at offset {} are wanted",
                log_safe(path_),
                size_bytes_,
                size_bytes,
                offset_bytes);
  }
  return bytes().subspan(offset_bytes, size_bytes);
}

void MappedFile::advise(FileAdvice advice, uint64_t offset_bytes, uint64_t size_bytes) const {
  if (offset_bytes >= size_bytes_) return;
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  uint64_t begin = offset_bytes;
  uint64_t end = offset_bytes + std::min<uint64_t>(size_bytes, size_bytes_ - offset_bytes);
  int kernel_advice = MADV_SEQUENTIAL;
  if (advice == FileAdvice::kWillNeed) kernel_advice = MADV_WILLNEED;
  if (advice == FileAdvice::kDontNeed) {
    kernel_advice = MADV_DONTNEED;
    begin = (begin + page - 1) / page * page;
    if (end != size_bytes_) end = end / page * page;
  } else {
    begin = begin / page * page;
  }
  if (begin >= end) return;
  ::madvise(const_cast<std::byte*>(data_) + begin, end - begin, kernel_advice);
}

Expected<void> MappedFile::check_unchanged() const {
  struct stat status{};
  if (::fstat(fd_.get(), &status) != 0) {
    return fail_errno(errno, "cannot examine file '{}'", log_safe(path_));
  }
  if (static_cast<uint64_t>(status.st_size) != size_bytes_ || modified_ns(status) != modified_ns_) {
    return fail(ErrorCode::kCorruptData,
                "file '{}' was changed while it was in use (had {} bytes, has {})",
                log_safe(path_),
                size_bytes_,
                status.st_size);
  }
  return {};
}

}  // namespace tandem::system
