#include "system/cpu_features.h"

#include <array>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "base/log.h"
#include "system/os_error.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace tandem::system {

#if defined(__x86_64__)

namespace {

struct CpuidLeaf {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

CpuidLeaf cpuid(unsigned leaf, unsigned subleaf) {
  CpuidLeaf result;
  // Checks the highest leaf first; zeros above it.
  if (__get_cpuid_count(leaf, subleaf, &result.eax, &result.ebx, &result.ecx, &result.edx) == 0) {
    return {};
  }
  return result;
}

// XCR0: which register states the system saves (Intel SDM vol. 1, 13.3).
uint64_t enabled_states() {
  uint32_t low = 0;
  uint32_t high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t{high} << 32) | low;
}

bool bit(uint64_t word, int index) { return ((word >> index) & 1) != 0; }

constexpr uint64_t kAvxStates = 0x6;            // SSE, upper halves of YMM
constexpr uint64_t kAvx512States = 0xE6;        // those, opmasks, upper ZMM, ZMM16..31
constexpr uint64_t kAmxStates = 0x60000;        // tile configuration, tile data
constexpr int kXfeatureTileData = 18;           // arch/x86/include/asm/fpu/types.h
constexpr int kArchRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM, asm/prctl.h

}  // namespace

// Bits: Intel SDM vol. 2A, CPUID, tables 3-8 on.
CpuFeatures detect_cpu_features() {
  CpuFeatures features;
  const CpuidLeaf basic = cpuid(1, 0);
  const bool osxsave = bit(basic.ecx, 27);
  const uint64_t states = osxsave ? enabled_states() : 0;
  if (!bit(basic.ecx, 28) || (states & kAvxStates) != kAvxStates) return features;
  const CpuidLeaf extended = cpuid(7, 0);
  const CpuidLeaf extended1 = extended.eax >= 1 ? cpuid(7, 1) : CpuidLeaf{};
  features.avx2 = bit(extended.ebx, 5);
  features.fma = bit(basic.ecx, 12);
  features.f16c = bit(basic.ecx, 29);
  features.avx_vnni = bit(extended1.eax, 4);
  if ((states & kAvx512States) == kAvx512States) {
    features.avx512f = bit(extended.ebx, 16);
    features.avx512dq = bit(extended.ebx, 17);
    features.avx512bw = bit(extended.ebx, 30);
    features.avx512vl = bit(extended.ebx, 31);
    features.avx512_vnni = bit(extended.ecx, 11);
    features.avx512_bf16 = bit(extended1.eax, 5);
  }
  if ((states & kAmxStates) == kAmxStates) {
    features.amx_tile = bit(extended.edx, 24);
    features.amx_int8 = features.amx_tile && bit(extended.edx, 25);
    features.amx_bf16 = features.amx_tile && bit(extended.edx, 22);
  }
  return features;
}

Expected<void> request_amx_permission() {
  if (!detect_cpu_features().amx_tile) {
    return fail(ErrorCode::kUnsupported, "this processor or system has no AMX");
  }
  if (::syscall(SYS_arch_prctl, kArchRequestPermission, kXfeatureTileData) != 0) {
    Error error = fail_errno(errno, "the system refuses AMX").error();
    error.code = ErrorCode::kUnsupported;
    error.hint = "AMX needs Linux 5.16 or newer";
    return fail(std::move(error));
  }
  return {};
}

#elif defined(__aarch64__)

// Bits: Linux, arch/arm64/include/uapi/asm/hwcap.h. Written out, since older headers lack the
// newer.
CpuFeatures detect_cpu_features() {
  const uint64_t first = ::getauxval(AT_HWCAP);
  const uint64_t second = ::getauxval(AT_HWCAP2);
  const auto bit = [](uint64_t word, int index) { return ((word >> index) & 1) != 0; };
  CpuFeatures features;
  features.neon = bit(first, 1);                                     // ASIMD
  features.fp16 = features.neon && bit(first, 9) && bit(first, 10);  // FPHP, ASIMDHP
  features.dotprod = features.neon && bit(first, 20);                // ASIMDDP
  features.sve = bit(first, 22);                                     // SVE
  features.i8mm = features.neon && bit(second, 13);                  // I8MM
  features.bf16 = features.neon && bit(second, 14);                  // BF16
  return features;
}

Expected<void> request_amx_permission() {
  return fail(ErrorCode::kUnsupported, "AMX exists on x86 only");
}

#else

CpuFeatures detect_cpu_features() { return {}; }

Expected<void> request_amx_permission() {
  return fail(ErrorCode::kUnsupported, "AMX exists on x86 only");
}

#endif

std::string to_string(const CpuFeatures& features) {
  const std::array<std::pair<bool, const char*>, 19> all = {{
      {features.avx2, "avx2"},
      {features.fma, "fma"},
      {features.f16c, "f16c"},
      {features.avx_vnni, "avx_vnni"},
      {features.avx512f, "avx512f"},
      {features.avx512bw, "avx512bw"},
      {features.avx512dq, "avx512dq"},
      {features.avx512vl, "avx512vl"},
      {features.avx512_vnni, "avx512_vnni"},
      {features.avx512_bf16, "avx512_bf16"},
      {features.amx_tile, "amx_tile"},
      {features.amx_int8, "amx_int8"},
      {features.amx_bf16, "amx_bf16"},
      {features.neon, "neon"},
      {features.dotprod, "dotprod"},
      {features.fp16, "fp16"},
      {features.i8mm, "i8mm"},
      {features.bf16, "bf16"},
      {features.sve, "sve"},
  }};
  std::string text;
  for (const auto& [present, name] : all) {
    if (!present) continue;
    if (!text.empty()) text += ' ';
    text += name;
  }
  return text;
}

const char* to_string(InstructionSet set) {
  switch (set) {
    case InstructionSet::kGeneric:
      return "generic";
    case InstructionSet::kAvx2:
      return "avx2";
    case InstructionSet::kAvx512:
      return "avx512";
    case InstructionSet::kNeon:
      return "neon";
  }
  return "unknown";
}

Expected<InstructionSet> parse_instruction_set(std::string_view name) {
  for (const InstructionSet set : {InstructionSet::kGeneric,
                                   InstructionSet::kAvx2,
                                   InstructionSet::kAvx512,
                                   InstructionSet::kNeon}) {
    if (name == to_string(set)) return set;
  }
  return fail(ErrorCode::kInvalidArgument,
              "instruction set '{}' is not one of generic, avx2, avx512, neon",
              log_safe(name));
}

bool supports(const CpuFeatures& features, InstructionSet set) {
  const bool avx2 = features.avx2 && features.fma && features.f16c;
  switch (set) {
    case InstructionSet::kGeneric:
      return true;
    case InstructionSet::kAvx2:
      return avx2;
    case InstructionSet::kAvx512:
      return avx2 && features.avx512f && features.avx512bw && features.avx512dq &&
             features.avx512vl;
    case InstructionSet::kNeon:
      return features.neon;
  }
  return false;
}

InstructionSet best_instruction_set(const CpuFeatures& features) {
  for (const InstructionSet set :
       {InstructionSet::kAvx512, InstructionSet::kAvx2, InstructionSet::kNeon}) {
    if (supports(features, set)) return set;
  }
  return InstructionSet::kGeneric;
}

}  // namespace tandem::system
