#pragma once
// TANDEM_CHECK(condition, "text"): a broken promise between parts of the program (never a client's
// or a file's fault). Prints the place and aborts, in every build type.

namespace tandem {
[[noreturn]] void check_failed(const char* file, int line, const char* condition, const char* text);
}  // namespace tandem

#define TANDEM_CHECK(condition, ...)                                                      \
  do {                                                                                    \
    if (!(condition)) [[unlikely]]                                                        \
      ::tandem::check_failed(__FILE__, __LINE__, #condition, "" __VA_OPT__(__VA_ARGS__)); \
  } while (false)
