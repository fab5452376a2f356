#include <limits>

#include "kernels/cpu/common/cpu_test_util.h"

namespace tandem::kernels::testing {
namespace {

constexpr WeightFormat kFormats[] = {
    WeightFormat::kF32, WeightFormat::kF16, WeightFormat::kBF16, WeightFormat::kF8Block128};
constexpr DType kActivations[] = {DType::kF32, DType::kBF16};

struct Shape {
  int64_t n;
  int64_t k;
};

LinearCase plain_case(Random& random, const HostWeight& weight, DType activation, int64_t tokens) {
  LinearCase c;
  c.x = random_rows(random, activation, tokens, weight.k);
  c.parts = {weight.source()};
  return c;
}

TEST(CpuLinear, EveryInstructionSetGivesTheReferencesBits) {
  Random random(1);
  for (const DType activation : kActivations) {
    TestDevice reference(open_reference_device(activation));
    for (const WeightFormat format : kFormats) {
      for (const Shape shape : {Shape{1, 1}, {64, 128}, {70, 131}, {200, 300}}) {
        const HostWeight weight = random_weight(random, format, shape.n, shape.k);
        for (const int64_t tokens : {1, 3, 7, 33}) {
          const LinearCase c = plain_case(random, weight, activation, tokens);
          const HostRows expected = run_linear(reference, c);
          for (const auto set : instruction_sets()) {
            const auto device = cpu_device(activation, set);
            const std::string what = std::string(to_string(format)) + " " + to_string(set);
            expect_equal_bits(run_linear(*device, c), expected, what);
            if (::testing::Test::HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

TEST(CpuLinear, ARowsBitsDependNeitherOnOtherRowsNorOnThreads) {
  Random random(2);
  for (const WeightFormat format : kFormats) {
    const HostWeight weight = random_weight(random, format, 450, 260);
    const LinearCase all = plain_case(random, weight, DType::kBF16, 200);
    const HostRows expected = run_linear(*best_device(DType::kBF16), all);
    expect_equal_bits(run_linear(*best_device(DType::kBF16, 3), all), expected, "threads");
    for (int64_t count = 1; count <= 33; ++count) {
      LinearCase some = all;
      some.x = rows_of(all.x, 5, count);
      const HostRows got = run_linear(*best_device(DType::kBF16), some);
      expect_equal_bits(got, rows_of(expected, 5, count), std::to_string(count) + " rows");
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(CpuLinear, BiasAddAndPartsOfManyFormats) {
  Random random(3);
  const HostWeight a = random_weight(random, WeightFormat::kBF16, 70, 200);
  const HostWeight b = random_weight(random, WeightFormat::kF8Block128, 300, 200);
  const HostWeight d = random_weight(random, WeightFormat::kF32, 33, 200);
  for (const DType activation : kActivations) {
    TestDevice reference(open_reference_device(activation));
    for (const int64_t tokens : {1, 5, 40}) {
      LinearCase c;
      c.x = random_rows(random, activation, tokens, 200);
      c.parts = {a.source(), b.source(100, 90), d.source()};  // b from inside a scale block
      c.bias = random_values(random, 193, 0, 1);
      c.out_dtype = activation;
      LinearCase added = c;
      added.epilogue = Epilogue::kAdd;
      added.initial = random_rows(random, DType::kF32, tokens, 193);
      for (const auto set : instruction_sets()) {
        const auto device = cpu_device(activation, set, 2);
        expect_equal_bits(run_linear(*device, c), run_linear(reference, c), to_string(set));
        expect_equal_bits(run_linear(*device, added), run_linear(reference, added), "add");
      }
    }
  }
}

TEST(CpuLinear, GateAndUp) {
  Random random(4);
  const HostWeight gate = random_weight(random, WeightFormat::kBF16, 150, 130, 0.5f);
  const HostWeight up = random_weight(random, WeightFormat::kF8Block128, 150, 130, 0.5f);
  for (const DType activation : kActivations) {
    TestDevice reference(open_reference_device(activation));
    LinearCase c;
    c.x = random_rows(random, activation, 21, 130);
    c.parts = {gate.source(), up.source()};
    c.pairing = Pairing::kGateUp;
    c.epilogue = Epilogue::kSiluMul;
    c.bias = random_values(random, 300, 0, 1);
    c.out_dtype = activation;
    const HostRows expected = run_linear(reference, c);
    HostRows first;
    for (const auto set : instruction_sets()) {
      const HostRows got = run_linear(*cpu_device(activation, set, 2), c);
      expect_close(got, expected, 1e-5f, tolerance(activation), to_string(set));
      if (first.rows == 0) first = got;
      expect_equal_bits(got, first, to_string(set));
      LinearCase one = c;
      one.x = rows_of(c.x, 20, 1);
      expect_equal_bits(
          run_linear(*cpu_device(activation, set), one), rows_of(got, 20, 1), "one row");
    }
  }
}

TEST(CpuLinear, SiluOfExtremeValues) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> inputs = {
      0.0f, -0.5f, 1.0f, -20.0f, 20.0f, -87.0f, -88.5f, -1000.0f, 1000.0f, -inf, inf};
  const auto count = static_cast<int64_t>(inputs.size());
  HostWeight one{WeightFormat::kF32, 1, 1, std::vector<uint8_t>(4), {}};
  const float unit = 1;
  std::memcpy(one.bytes.data(), &unit, 4);
  LinearCase c;
  c.x = HostRows(DType::kF32, count, 1);
  for (int64_t i = 0; i < count; ++i) c.x.set(i, 0, inputs[static_cast<size_t>(i)]);
  c.parts = {one.source(), one.source()};
  c.pairing = Pairing::kGateUp;
  c.epilogue = Epilogue::kSiluMul;
  c.bias = {0.0f, 0.0f};
  TestDevice reference(open_reference_device(DType::kF32));
  const HostRows expected = run_linear(reference, c);
  for (const auto set : instruction_sets()) {
    const HostRows got = run_linear(*cpu_device(DType::kF32, set), c);
    for (int64_t i = 0; i < count; ++i) {
      const float want = expected.at(i, 0);
      if (std::isnan(want)) {
        EXPECT_TRUE(std::isnan(got.at(i, 0))) << c.x.at(i, 0);
      } else if (std::isinf(want)) {
        EXPECT_EQ(got.at(i, 0), want);
      } else {
        EXPECT_NEAR(got.at(i, 0), want, 1e-30f + 4e-7f * std::fabs(want)) << c.x.at(i, 0);
      }
    }
  }
}

// All 256 codes, NaN among them, with few and with many rows.
TEST(CpuLinear, EveryF8Code) {
  HostWeight weight{WeightFormat::kF8Block128, 256, 1, {}, {2.0f, 0.5f}};
  for (int code = 0; code < 256; ++code) weight.bytes.push_back(static_cast<uint8_t>(code));
  for (const int64_t tokens : {1, 9}) {
    LinearCase c;
    c.x = HostRows(DType::kBF16, tokens, 1);
    for (int64_t t = 0; t < tokens; ++t) c.x.set(t, 0, 1.5f);
    c.parts = {weight.source()};
    for (const auto set : instruction_sets()) {
      const HostRows got = run_linear(*cpu_device(DType::kBF16, set), c);
      for (int64_t code = 0; code < 256; ++code) {
        const float want =
            quant::f8e4m3_to_float(static_cast<uint8_t>(code)) * 1.5f * (code < 128 ? 2.0f : 0.5f);
        const float value = got.at(tokens - 1, code);
        if (std::isnan(want)) {
          EXPECT_TRUE(std::isnan(value)) << code;
        } else {
          EXPECT_EQ(value, want) << to_string(set) << " " << code;
        }
      }
    }
  }
}

TEST(CpuDevice, RefusesWhatItCannotRun) {
  CpuDeviceConfig config;
  config.activation = DType::kF16;
  EXPECT_EQ(open_cpu_device(config).error().code, ErrorCode::kUnsupported);
  config.activation = DType::kF32;
  config.instruction_set =
      system::supports(system::detect_cpu_features(), system::InstructionSet::kNeon)
          ? system::InstructionSet::kAvx2
          : system::InstructionSet::kNeon;
  EXPECT_EQ(open_cpu_device(config).error().code, ErrorCode::kInvalidArgument);
  config.instruction_set = system::InstructionSet::kGeneric;
  config.threads = 0;
  EXPECT_EQ(open_cpu_device(config).error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace tandem::kernels::testing
