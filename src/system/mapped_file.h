#pragma once
// A whole regular file as read-only memory: weights are read straight from the page cache.
//
// Caution: if another process cuts the file short while it is mapped, reading the lost pages raises
// SIGBUS, which ends the program; no check can exclude that. Published checkpoints are replaced by
// rename, which is safe. check_unchanged() before a long read finds a file that has been cut
// before.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/error.h"
#include "system/unique_fd.h"

namespace tandem::system {

enum class FileAdvice {
  kSequential,  // read ahead far, drop behind
  kWillNeed,    // start reading the range now
  kDontNeed,    // unmap the range's pages; they stay readable and may stay in the page cache
};

// Owns the mapping; movable. Reading: any thread. The spans are valid as long as the object lives.
class MappedFile {
 public:
  // Follows symbolic links. Errors name the file: kNotFound, kIo, kInvalidArgument (no regular
  // file), kCorruptData (empty file, or its size changed while it was opened).
  static Expected<MappedFile> open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, size_bytes_}; }

  // Part of the file. Errors: kCorruptData if it does not lie wholly inside; no sum overflows.
  Expected<std::span<const std::byte>> range(uint64_t offset_bytes, uint64_t size_bytes) const;

  // A hint: whole pages, cut to the file; a refusal is silently ignored. kDontNeed leaves pages
  // that the range only partly covers.
  void advise(FileAdvice advice, uint64_t offset_bytes, uint64_t size_bytes) const;

  // kCorruptData if the file's size or time of change is no longer what it was at open().
  Expected<void> check_unchanged() const;

 private:
  MappedFile() = default;

  std::string path_;
  UniqueFd fd_;
  const std::byte* data_ = nullptr;
  size_t size_bytes_ = 0;
  int64_t modified_ns_ = 0;
};

}  // namespace tandem::system
