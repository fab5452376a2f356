#pragma once
// The limit on open descriptors. A server holds one a connection, and many systems still start
// programs with 1024.

#include <cstdint>

#include "base/error.h"

namespace tandem::system {

// Raises this process's soft limit to `wanted`, or to the hard limit where that is lower; never
// lowers it. Returns the limit that holds afterwards. Errors: kIo. Call it at start, before other
// threads open files.
Expected<int64_t> raise_open_file_limit(int64_t wanted);

}  // namespace tandem::system
