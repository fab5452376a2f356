#pragma once
// What the operating system refused, as an Error: the caller's words, then the system's.

#include <fmt/core.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace tandem::system {

// return fail_errno(errno, "cannot open '{}'", path);
template <class... Args>
std::unexpected<Error> fail_errno(int error_number,
                                  fmt::format_string<Args...> format,
                                  Args&&... args) {
  ErrorCode code = ErrorCode::kIo;
  if (error_number == ENOENT || error_number == ENOTDIR) code = ErrorCode::kNotFound;
  if (error_number == ENOMEM) code = ErrorCode::kOutOfMemory;
  return fail(code,
              "{}: {}",
              fmt::format(format, std::forward<Args>(args)...),
              std::generic_category().message(error_number));
}

}  // namespace tandem::system
