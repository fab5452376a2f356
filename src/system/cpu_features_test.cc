#include "system/cpu_features.h"

#include <gtest/gtest.h>

#include <string>

#include "system/files.h"

namespace tandem::system {
namespace {

// The kernel's own list of flags is an independent witness. The names differ in underscores.
bool kernel_lists(const std::string& cpuinfo, const std::string& key, const std::string& name) {
  const size_t at = cpuinfo.find("\n" + key);
  if (at == std::string::npos) return false;
  const std::string line = cpuinfo.substr(at + 1, cpuinfo.find('\n', at + 1) - at - 1) + " ";
  return line.find(" " + name + " ") != std::string::npos;
}

TEST(CpuFeatures, AgreesWithTheKernel) {
  const CpuFeatures found = detect_cpu_features();
  const std::string cpuinfo = read_text_file("/proc/cpuinfo", size_t{16} << 20).value();
#if defined(__x86_64__)
  const auto kernel = [&](const char* name) { return kernel_lists(cpuinfo, "flags", name); };
  EXPECT_EQ(found.avx2, kernel("avx2"));
  EXPECT_EQ(found.fma, kernel("fma"));
  EXPECT_EQ(found.f16c, kernel("f16c"));
  EXPECT_EQ(found.avx_vnni, kernel("avx_vnni"));
  EXPECT_EQ(found.avx512f, kernel("avx512f"));
  EXPECT_EQ(found.avx512bw, kernel("avx512bw"));
  EXPECT_EQ(found.avx512dq, kernel("avx512dq"));
  EXPECT_EQ(found.avx512vl, kernel("avx512vl"));
  EXPECT_EQ(found.avx512_vnni, kernel("avx512_vnni"));
  EXPECT_EQ(found.avx512_bf16, kernel("avx512_bf16"));
  EXPECT_EQ(found.amx_tile, kernel("amx_tile"));
  EXPECT_EQ(found.amx_int8, kernel("amx_int8"));
  EXPECT_EQ(found.amx_bf16, kernel("amx_bf16"));
  EXPECT_FALSE(found.neon);
#elif defined(__aarch64__)
  EXPECT_TRUE(found.neon);  // part of the base architecture
  EXPECT_FALSE(found.avx2);
  if (cpuinfo.find("\nFeatures") != std::string::npos) {  // an emulator may show the host's file
    const auto kernel = [&](const char* name) { return kernel_lists(cpuinfo, "Features", name); };
    EXPECT_EQ(found.dotprod, kernel("asimddp"));
    EXPECT_EQ(found.fp16, kernel("asimdhp"));
    EXPECT_EQ(found.i8mm, kernel("i8mm"));
    EXPECT_EQ(found.bf16, kernel("bf16"));
    EXPECT_EQ(found.sve, kernel("sve"));
  }
#endif
  EXPECT_TRUE(supports(found, best_instruction_set(found)));
}

TEST(CpuFeatures, ChoosesTheBestWholeSet) {
  CpuFeatures features;
  EXPECT_EQ(best_instruction_set(features), InstructionSet::kGeneric);
  features.avx2 = features.fma = true;
  EXPECT_EQ(best_instruction_set(features), InstructionSet::kGeneric);
  features.f16c = true;
  EXPECT_EQ(best_instruction_set(features), InstructionSet::kAvx2);
  features.avx512f = features.avx512bw = features.avx512dq = true;
  EXPECT_EQ(best_instruction_set(features), InstructionSet::kAvx2);
  features.avx512vl = true;
  EXPECT_EQ(best_instruction_set(features), InstructionSet::kAvx512);
  EXPECT_FALSE(supports(features, InstructionSet::kNeon));
  EXPECT_EQ(best_instruction_set({.neon = true}), InstructionSet::kNeon);
}

TEST(CpuFeatures, NamesRoundTrip) {
  for (const InstructionSet set : {InstructionSet::kGeneric,
                                   InstructionSet::kAvx2,
                                   InstructionSet::kAvx512,
                                   InstructionSet::kNeon})
    EXPECT_EQ(parse_instruction_set(to_string(set)).value(), set);
  EXPECT_FALSE(parse_instruction_set("AVX2"));
  EXPECT_FALSE(parse_instruction_set(""));
  EXPECT_EQ(to_string(CpuFeatures{.avx2 = true, .sve = true}), "avx2 sve");
}

TEST(CpuFeatures, AsksForAmxOnlyWhereItExists) {
  const bool has_amx = detect_cpu_features().amx_tile;
  const auto first = request_amx_permission();
  if (!has_amx) {
    EXPECT_EQ(first.error().code, ErrorCode::kUnsupported);
    return;
  }
  EXPECT_TRUE(first) << first.error().to_line();
  EXPECT_TRUE(request_amx_permission());
}

}  // namespace
}  // namespace tandem::system
