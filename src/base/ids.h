#pragma once
// 128-bit random identifiers for requests. A client's own id is a label, never a key.

#include <string>

namespace tandem {

// 32 lower-case hexadecimal digits from the operating system's random source. Any thread.
std::string random_id();

}  // namespace tandem
