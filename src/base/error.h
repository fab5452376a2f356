#pragma once
// Expected errors are values: Expected<T> holds a T or an Error. Programmer errors are TANDEM_CHECK
// (check.h). Library exceptions are caught at the edge where the library is called and become an
// Error there.

#include <fmt/core.h>

#include <expected>
#include <string>
#include <utility>

namespace tandem {

enum class ErrorCode {
  kInvalidArgument,  // the caller's value is wrong: a flag, a field, a prompt
  kNotFound,         // a file, model, tensor or route that is not there
  kUnsupported,      // valid, but not built (yet): refused by name
  kCorruptData,      // a file that contradicts itself or its format
  kOutOfMemory,
  kUnavailable,  // full or draining: try again later
  kIo,           // the operating system refused
  kTimeout,
  kCancelled,
  kInternal,  // a bug or a device failure
};

// Stable lower-case word for logs and tests, e.g. "corrupt_data".
const char* to_string(ErrorCode code);

// `message`: one line that names the field, file or flag, what was found and what is accepted.
// `hint`: what to do about it; may be empty.
struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
  std::string hint = {};

  // "message (hint)", one line, for the terminal.
  std::string to_line() const;
};

template <class T>
using Expected = std::expected<T, Error>;

// return fail(ErrorCode::kNotFound, "file '{}' does not exist", path);
template <class... Args>
std::unexpected<Error> fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  return std::unexpected(Error{code, fmt::format(format, std::forward<Args>(args)...)});
}

inline std::unexpected<Error> fail(Error error) { return std::unexpected(std::move(error)); }

}  // namespace tandem

#define TANDEM_CONCAT_INNER(a, b) a##b
#define TANDEM_CONCAT(a, b) TANDEM_CONCAT_INNER(a, b)

// TANDEM_TRY(expr): returns the error of an Expected<…> from the enclosing function, else goes on.
#define TANDEM_TRY(...)                                            \
  do {                                                             \
    if (auto try_result = (__VA_ARGS__); !try_result) [[unlikely]] \
      return std::unexpected(std::move(try_result).error());       \
  } while (false)

// TANDEM_ASSIGN(auto x, expr): declares or assigns x from an Expected, or returns its error.
#define TANDEM_ASSIGN(target, ...) \
  TANDEM_ASSIGN_INNER(TANDEM_CONCAT(assign_result_, __LINE__), target, __VA_ARGS__)
#define TANDEM_ASSIGN_INNER(result, target, ...)       \
  auto result = (__VA_ARGS__);                         \
  if (!result) [[unlikely]]                            \
    return std::unexpected(std::move(result).error()); \
  target = std::move(result).value()
