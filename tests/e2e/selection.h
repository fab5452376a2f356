#pragma once
// TANDEM_SHORT=1: a shorter selection, for sanitizers, under which everything takes ten times as
// long.

#include <cstdlib>
#include <string_view>

namespace tandem::e2e {

inline bool is_short() {
  const char* value = std::getenv("TANDEM_SHORT");
  return value != nullptr && std::string_view(value) == "1";
}

}  // namespace tandem::e2e
