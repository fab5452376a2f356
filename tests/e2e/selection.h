#pragma once
// A shorter selection: with TANDEM_SHORT=1, and always in programs with a sanitizer, under which
// everything takes ten times as long. TANDEM_SHORT=0 asks for all of it there too.

#include <cstdlib>
#include <string_view>

namespace tandem::e2e {

inline bool is_short() {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  constexpr std::string_view kDefault = "1";
#else
  constexpr std::string_view kDefault = "0";
#endif
  const char* value = std::getenv("TANDEM_SHORT");
  return (value != nullptr ? std::string_view(value) : kDefault) == "1";
}

}  // namespace tandem::e2e
