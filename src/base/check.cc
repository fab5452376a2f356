#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace tandem {

void check_failed(const char* file, int line, const char* condition, const char* text) {
  std::fprintf(stderr, "tandem: check failed at %s:%d: %s %s\n", file, line, condition, text);
  std::fflush(stderr);
  std::abort();
}

}  // namespace tandem
