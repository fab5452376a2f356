#pragma once
// The program's version, from project() in CMakeLists.txt.
// check_headers: -DTANDEM_VERSION=""

namespace tandem::app {

inline constexpr const char* kVersion = TANDEM_VERSION;

}  // namespace tandem::app
