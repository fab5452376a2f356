#pragma once
// C++20 (shared with .cu)
// Names the build: a device library is refused unless its id equals the program's.

namespace tandem::kernels {

#ifndef TANDEM_BUILD_ID
#define TANDEM_BUILD_ID "unversioned"
#endif
inline constexpr char kBuildId[] = TANDEM_BUILD_ID;

}  // namespace tandem::kernels
