#include "system/open_files.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace tandem::system {
namespace {

int64_t to_count(rlim_t limit) {
  return limit == RLIM_INFINITY || limit > static_cast<rlim_t>(INT64_MAX)
             ? INT64_MAX
             : static_cast<int64_t>(limit);
}

}  // namespace

Expected<int64_t> raise_open_file_limit(int64_t wanted) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return fail(ErrorCode::kIo, "the limit of open files: {}", std::strerror(errno));
  const int64_t target = std::min(wanted, to_count(limit.rlim_max));
  if (target <= to_count(limit.rlim_cur)) return to_count(limit.rlim_cur);
  limit.rlim_cur = static_cast<rlim_t>(target);
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0)
    return fail(ErrorCode::kIo, "the limit of open files: {}", std::strerror(errno));
  return target;
}

}  // namespace tandem::system
