#pragma once
// One floating-point mode for every thread that computes, so that no result depends on which thread
// made it: round to nearest even, no traps, denormal results and (x86) operands count as zero.

#include <cstdint>

namespace tandem::system {

// Sets the mode for the calling thread and puts the old one back at the end of its scope. Stack
// only; the thread that made it. A few nanoseconds.
class FloatEnvironment {
 public:
  FloatEnvironment();
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;
  ~FloatEnvironment();

 private:
  uint64_t saved_;
};

}  // namespace tandem::system
