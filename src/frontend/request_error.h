#pragma once
// What a client did wrong, or why it cannot be served: the field's name travels with the message.
// serve turns it into an API's error shape; the command line prints it.

#include <fmt/core.h>

#include <expected>
#include <string>
#include <utility>

#include "base/error.h"

namespace tandem::frontend {

enum class ErrorKind {
  kInvalid,     // the request is wrong: 400
  kNotFound,    // the model is not served: 404
  kTooLarge,    // a count or size over its cap: 400, before anything is allocated for it
  kOverloaded,  // the queue is full or the engine drains: 503, try again later
  kInternal,    // ours: 500
};

struct RequestError {
  ErrorKind kind = ErrorKind::kInvalid;
  std::string message;
  std::string param = {};  // the field's name; empty if none
};

template <class T>
using Checked = std::expected<T, RequestError>;

// return invalid("top_p", "must be in (0, 1], found {}", value);  -> "top_p must be …"
template <class... Args>
std::unexpected<RequestError> invalid(std::string param,
                                      fmt::format_string<Args...> format,
                                      Args&&... args) {
  std::string message = fmt::format(format, std::forward<Args>(args)...);
  if (!param.empty()) message = "'" + param + "' " + message;
  return std::unexpected(RequestError{ErrorKind::kInvalid, std::move(message), std::move(param)});
}

// An engine's or text's Error seen from a request's side.
inline RequestError to_request_error(const Error& error, std::string param = {}) {
  ErrorKind kind = ErrorKind::kInternal;
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kUnsupported:
    case ErrorCode::kCorruptData:
      kind = ErrorKind::kInvalid;
      break;
    case ErrorCode::kNotFound:
      kind = ErrorKind::kNotFound;
      break;
    case ErrorCode::kUnavailable:
      kind = ErrorKind::kOverloaded;
      break;
    default:
      break;
  }
  return {kind, error.message, std::move(param)};
}

}  // namespace tandem::frontend
