#include "system/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/log.h"
#include "system/os_error.h"

namespace tandem::system {

namespace {

constexpr size_t kMaxPathInMessage = 1024;

// A path with a zero byte would be cut silently by the system call and name another file.
Expected<void> check_path(const std::string& path) {
  if (path.empty()) return fail(ErrorCode::kInvalidArgument, "the path is empty");
  if (path.find('\0') != std::string::npos) {
    return fail(ErrorCode::kInvalidArgument,
                "path '{}' contains a zero byte",
                log_safe(path, kMaxPathInMessage));
  }
  return {};
}

bool has_type(const std::string& path, mode_t type) {
  struct stat status{};
  return check_path(path) && ::stat(path.c_str(), &status) == 0 &&
         (status.st_mode & S_IFMT) == type;
}

}  // namespace

Expected<UniqueFd> open_regular_file(const std::string& path) {
  TANDEM_TRY(check_path(path));
  // O_NONBLOCK: opening a pipe must not wait for its writer. It means nothing to regular files.
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd.valid()) {
    return fail_errno(errno, "cannot open file '{}'", log_safe(path, kMaxPathInMessage));
  }
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) {
    return fail_errno(errno, "cannot examine file '{}'", log_safe(path, kMaxPathInMessage));
  }
  if (!S_ISREG(status.st_mode)) {
    return fail(ErrorCode::kInvalidArgument,
                "'{}' is {}, not a regular file",
                log_safe(path, kMaxPathInMessage),
                S_ISDIR(status.st_mode) ? "a directory" : "a device, pipe or socket");
  }
  return fd;
}

Expected<std::string> read_text_file(const std::string& path, size_t max_bytes) {
  TANDEM_ASSIGN(const UniqueFd fd, open_regular_file(path));
  std::string content;
  std::array<char, 16384> buffer;
  for (;;) {
    const ssize_t got = ::read(fd.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return fail_errno(errno, "cannot read file '{}'", log_safe(path, kMaxPathInMessage));
    }
    if (got == 0) return content;
    if (static_cast<size_t>(got) > max_bytes - content.size()) {
      return fail(ErrorCode::kInvalidArgument,
                  "file '{}' is larger than the {} bytes accepted here",
                  log_safe(path, kMaxPathInMessage),
                  max_bytes);
    }
    content.append(buffer.data(), static_cast<size_t>(got));
  }
}

bool path_exists(const std::string& path) {
  struct stat status{};
  return check_path(path) && ::stat(path.c_str(), &status) == 0;
}

bool is_directory(const std::string& path) { return has_type(path, S_IFDIR); }

bool is_regular_file(const std::string& path) { return has_type(path, S_IFREG); }

Expected<std::vector<std::string>> list_directory(const std::string& path, size_t max_entries) {
  TANDEM_TRY(check_path(path));
  struct Close {
    void operator()(DIR* directory) const { ::closedir(directory); }
  };
  const std::unique_ptr<DIR, Close> directory(::opendir(path.c_str()));
  if (!directory) {
    return fail_errno(errno, "cannot list directory '{}'", log_safe(path, kMaxPathInMessage));
  }
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(directory.get());
    if (entry == nullptr) break;
    if (std::strcmp(entry->d_name, ".") == 0 || std::strcmp(entry->d_name, "..") == 0) continue;
    if (names.size() >= max_entries) {
      return fail(ErrorCode::kInvalidArgument,
                  "directory '{}' has more than the {} entries accepted here",
                  log_safe(path, kMaxPathInMessage),
                  max_entries);
    }
    names.emplace_back(entry->d_name);
  }
  if (errno != 0) {
    return fail_errno(errno, "cannot list directory '{}'", log_safe(path, kMaxPathInMessage));
  }
  std::ranges::sort(names);
  return names;
}

Expected<std::string> executable_directory() {
  std::string target(4096, '\0');  // PATH_MAX on Linux
  const ssize_t length = ::readlink("/proc/self/exe", target.data(), target.size());
  if (length < 0) return fail_errno(errno, "cannot read /proc/self/exe");
  target.resize(static_cast<size_t>(length));
  const size_t slash = target.rfind('/');
  if (slash == std::string::npos) {
    return fail(ErrorCode::kIo, "/proc/self/exe names no folder: '{}'", log_safe(target));
  }
  return slash == 0 ? std::string("/") : target.substr(0, slash);
}

}  // namespace tandem::system
