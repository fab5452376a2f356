#pragma once
// Status values with formatted text. Any thread; throws nothing.

#include <fmt/core.h>

#include <cstring>
#include <utility>

#include "base/error.h"
#include "kernels/device_api.h"

namespace tandem::kernels {

// Cuts the text to what a Status holds.
template <class... Args>
Status make_status(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  Status status;
  status.code = static_cast<int32_t>(code) + 1;
  try {
    const auto end = fmt::format_to_n(
        status.message, sizeof(status.message) - 1, format, std::forward<Args>(args)...);
    *end.out = '\0';
  } catch (...) {
    std::strncpy(status.message, "error text could not be formatted", sizeof(status.message) - 1);
  }
  return status;
}

}  // namespace tandem::kernels
