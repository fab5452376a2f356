#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

#include "base/utf8.h"

namespace tandem {
namespace {

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

// What a JSON string may not hold raw. The line is already free of control characters (log_line).
std::string json_escape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

// spdlog keeps the process's one logger; whether lines are JSON is this file's only state.
bool g_json = false;

}  // namespace

void init_logging(LogLevel level, bool json) {
  auto logger =
      std::make_shared<spdlog::logger>("tandem", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  g_json = json;
  logger->set_pattern(json ? R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l","message":"%v"})"
                           : "%Y-%m-%d %H:%M:%S.%e %l %v");
  logger->set_level(to_spdlog(level));
  spdlog::set_default_logger(std::move(logger));
}

void log_line(LogLevel level, std::string_view text) {
  const std::string safe = log_safe(text, 16384);
  spdlog::default_logger_raw()->log(to_spdlog(level), "{}", g_json ? json_escape(safe) : safe);
}

std::string log_safe(std::string_view text, size_t max_bytes) {
  std::string out;
  out.reserve(std::min(text.size(), max_bytes) + 3);
  size_t i = 0;
  while (i < text.size()) {
    if (out.size() >= max_bytes) {
      out += "…";
      break;
    }
    const size_t length = utf8_sequence_length(text.substr(i));
    const auto byte = static_cast<unsigned char>(text[i]);
    if (length == 0 || byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
      i += 1;
    } else {
      out.append(text.substr(i, length));
      i += length;
    }
  }
  return out;
}

}  // namespace tandem
