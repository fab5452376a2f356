#pragma once
// Logging to standard error, one line an event. Untrusted text (file names, header values, prompts)
// goes through `log_safe`, so that no client can forge a line. Any thread. The level and format are
// set once at start by `init_logging`.

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <utility>

namespace tandem {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// `json`: one JSON object a line instead of text. Called once, before other threads start.
void init_logging(LogLevel level, bool json);

void log_line(LogLevel level, std::string_view text);

template <class... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kDebug, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kWarning, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kError, fmt::format(format, std::forward<Args>(args)...));
}

// Control characters and invalid UTF-8 as \xNN, cut to `max_bytes` with "…".
std::string log_safe(std::string_view text, size_t max_bytes = 256);

}  // namespace tandem
