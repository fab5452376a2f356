#include "system/float_environment.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace tandem::system {

namespace {

#if defined(__x86_64__)
// All exceptions masked (0x1F80), nearest even, flush to zero (0x8000), denormals are zero (0x40).
// Intel SDM vol. 1, 10.2.3.
constexpr uint64_t kComputeMode = 0x9FC0;

uint64_t read_mode() { return _mm_getcsr(); }
void write_mode(uint64_t mode) { _mm_setcsr(static_cast<unsigned>(mode)); }

#elif defined(__aarch64__)
// Only FZ (bit 24): flushes operands and results of single and double precision; FZ16 stays off, so
// that fp16 data keep their denormals, as on x86. Arm ARM, FPCR.
constexpr uint64_t kComputeMode = uint64_t{1} << 24;

uint64_t read_mode() {
  uint64_t mode = 0;
  __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
  return mode;
}
void write_mode(uint64_t mode) { __asm__ volatile("msr fpcr, %0" : : "r"(mode) : "memory"); }

#else
constexpr uint64_t kComputeMode = 0;
uint64_t read_mode() { return 0; }
void write_mode(uint64_t) {}
#endif

}  // namespace

FloatEnvironment::FloatEnvironment() : saved_(read_mode()) { write_mode(kComputeMode); }

FloatEnvironment::~FloatEnvironment() { write_mode(saved_); }

}  // namespace tandem::system
