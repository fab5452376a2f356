#pragma once
// What the processor and the operating system together let the program use. Any thread.

#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace tandem::system {

// Each is true only if the instructions exist and the system saves their registers. Those of the
// other architecture are false.
struct CpuFeatures {
  // x86
  bool avx2 = false;
  bool fma = false;
  bool f16c = false;
  bool avx_vnni = false;
  bool avx512f = false;
  bool avx512bw = false;
  bool avx512dq = false;
  bool avx512vl = false;
  bool avx512_vnni = false;
  bool avx512_bf16 = false;
  bool amx_tile = false;  // usable only after request_amx_permission()
  bool amx_int8 = false;
  bool amx_bf16 = false;
  // Arm
  bool neon = false;
  bool dotprod = false;
  bool fp16 = false;  // arithmetic, scalar and vector
  bool i8mm = false;
  bool bf16 = false;
  bool sve = false;

  bool operator==(const CpuFeatures&) const = default;
};

// Asks the processor; cheap, but ask once and pass the result on.
CpuFeatures detect_cpu_features();

// The names of those present, with blanks between, for logs: "avx2 fma f16c".
std::string to_string(const CpuFeatures& features);

// Linux gives AMX tile registers only to a process that asks. For all threads, present and future;
// asking twice is harmless. Errors: kUnsupported.
Expected<void> request_amx_permission();

// The families of kernels. What lies inside one (VNNI, BF16, AMX, dotprod) is told by CpuFeatures.
enum class InstructionSet { kGeneric, kAvx2, kAvx512, kNeon };

// "generic", "avx2", "avx512", "neon".
const char* to_string(InstructionSet set);
// Errors: kInvalidArgument with the names that are accepted.
Expected<InstructionSet> parse_instruction_set(std::string_view name);

// avx2 needs avx2, fma and f16c; avx512 needs those and F, BW, DQ, VL; generic needs nothing.
bool supports(const CpuFeatures& features, InstructionSet set);
InstructionSet best_instruction_set(const CpuFeatures& features);

}  // namespace tandem::system
