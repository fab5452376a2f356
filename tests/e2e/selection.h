#pragma once
// A shorter selection: with TANDEM_SHORT=1, and always in programs with a sanitizer, under which
// everything takes ten times as long. TANDEM_SHORT=0 asks for all of it there too.

#include <cstdlib>
#include <string_view>

namespace tandem::e2e {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)  // g++
constexpr bool kSanitized = true;
#elif defined(__has_feature)  // clang
constexpr bool kSanitized = __has_feature(thread_sanitizer) || __has_feature(address_sanitizer);
#else
constexpr bool kSanitized = false;
#endif

inline bool is_short() {
  const char* value = std::getenv("TANDEM_SHORT");
  return value != nullptr ? std::string_view(value) == "1" : kSanitized;
}

}  // namespace tandem::e2e
