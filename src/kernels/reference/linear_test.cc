#include <gtest/gtest.h>

#include "kernels/operator_test_cases.h"

namespace tandem::kernels::testing {
namespace {

double silu_of(double x) { return x / (1 + std::exp(-x)); }

// x[t] . w in double.
double product(const HostRows& x, int64_t t, const std::vector<float>& w) {
  double sum = 0;
  for (int64_t i = 0; i < x.columns; ++i) {
    sum += double{x.at(t, i)} * double{w[static_cast<size_t>(i)]};
  }
  return sum;
}

HostRows expected_linear(const HostRows& x, const std::vector<const HostWeight*>& parts) {
  int64_t n = 0;
  for (const HostWeight* part : parts) n += part->rows;
  HostRows out(DType::kF32, x.rows, n);
  int64_t column = 0;
  for (const HostWeight* part : parts) {
    for (int64_t r = 0; r < part->rows; ++r, ++column) {
      const std::vector<float> w = part->row(r);
      for (int64_t t = 0; t < x.rows; ++t) {
        out.set(t, column, static_cast<float>(product(x, t, w)));
      }
    }
  }
  return out;
}

TEST(ReferenceLinearTest, MatchesDoubleForEveryFormat) {
  Random random(1);
  TestDevice device(open_reference_device(DType::kF32));
  for (const WeightFormat format :
       {WeightFormat::kF32, WeightFormat::kF16, WeightFormat::kBF16, WeightFormat::kF8Block128}) {
    for (const int64_t k : {1, 127, 128, 129, 300}) {
      const HostWeight a = random_weight(random, format, 150, k);
      const HostWeight b = random_weight(random, WeightFormat::kBF16, 3, k);
      LinearCase c;
      c.x = random_rows(random, DType::kF32, 3, k);
      c.parts = {a.source(), b.source()};
      expect_close(
          run_linear(device, c), expected_linear(c.x, {&a, &b}), 2e-5f, 1e-5f, to_string(format));
    }
  }
}

TEST(ReferenceLinearTest, RowsOfASliceUseTheTensorsScales) {
  Random random(2);
  TestDevice device(open_reference_device(DType::kBF16));
  const HostWeight whole = random_weight(random, WeightFormat::kF8Block128, 300, 200);
  LinearCase all;
  all.x = random_rows(random, DType::kBF16, 2, 200);
  all.parts = {whole.source()};
  LinearCase slice = all;
  slice.parts = {whole.source(100, 130)};
  const HostRows a = run_linear(device, all);
  const HostRows b = run_linear(device, slice);
  for (int64_t i = 0; i < 130; ++i) EXPECT_EQ(b.at(1, i), a.at(1, 100 + i));
}

// The contract's order, spelled out once more: partitions of 128, fused, scaled, in order.
TEST(ReferenceLinearTest, SumsInTheFixedOrder) {
  Random random(3);
  TestDevice device(open_reference_device(DType::kF32));
  const int64_t k = 300;
  for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kF8Block128}) {
    const bool scaled = format == WeightFormat::kF8Block128;
    const HostWeight weight = random_weight(random, format, 140, k);
    LinearCase c;
    c.x = random_rows(random, DType::kF32, 2, k, 100.0f);
    c.parts = {weight.source()};
    const HostRows out = run_linear(device, c);
    for (int64_t n = 0; n < 140; ++n) {
      float total = 0;
      float sum = 0;
      for (int64_t i = 0; i < k; ++i) {
        float w = 0;
        if (scaled) {
          w = quant::f8e4m3_to_float(weight.bytes[static_cast<size_t>(n * k + i)]);
        } else {
          std::memcpy(&w, weight.bytes.data() + (n * k + i) * 4, 4);
        }
        sum = std::fma(c.x.at(1, i), w, sum);
        if (i % 128 != 127 && i != k - 1) continue;
        const auto block = static_cast<size_t>(n / 128 * 3 + i / 128);
        total = scaled ? std::fma(sum, weight.scales[block], total) : total + sum;
        sum = 0;
      }
      ASSERT_EQ(out.at(1, n), total) << n;
    }
  }
}

TEST(ReferenceLinearTest, BiasAndEpilogues) {
  Random random(4);
  TestDevice device(open_reference_device(DType::kBF16));
  const HostWeight gate = random_weight(random, WeightFormat::kBF16, 5, 64);
  const HostWeight up = random_weight(random, WeightFormat::kF8Block128, 5, 64);
  LinearCase c;
  c.x = random_rows(random, DType::kBF16, 2, 64);
  c.parts = {gate.source(), up.source()};
  c.bias = random_values(random, 10, 0, 1);
  const HostRows plain = expected_linear(c.x, {&gate, &up});

  c.out_dtype = DType::kBF16;
  HostRows expected(DType::kBF16, 2, 10);
  for (int64_t t = 0; t < 2; ++t) {
    for (int64_t i = 0; i < 10; ++i) {
      expected.set(t, i, plain.at(t, i) + c.bias[static_cast<size_t>(i)]);
    }
  }
  expect_close(run_linear(device, c), expected, 1e-5f, 0.004f, "bias");

  c.epilogue = Epilogue::kAdd;
  c.out_dtype = DType::kF32;
  c.initial = random_rows(random, DType::kF32, 2, 10);
  HostRows added(DType::kF32, 2, 10);
  for (int64_t t = 0; t < 2; ++t) {
    for (int64_t i = 0; i < 10; ++i) {
      added.set(t, i, c.initial.at(t, i) + plain.at(t, i) + c.bias[static_cast<size_t>(i)]);
    }
  }
  expect_close(run_linear(device, c), added, 1e-5f, 1e-5f, "add");

  c.bias.clear();
  c.epilogue = Epilogue::kSiluMul;
  c.pairing = Pairing::kGateUp;
  HostRows silu(DType::kF32, 2, 5);
  for (int64_t t = 0; t < 2; ++t) {
    for (int64_t i = 0; i < 5; ++i) {
      silu.set(t, i, static_cast<float>(silu_of(plain.at(t, i)) * plain.at(t, 5 + i)));
    }
  }
  expect_close(run_linear(device, c), silu, 1e-5f, 1e-5f, "silu");
}

TEST(ReferenceExpertsTest, SumsSlotsWithWeights) {
  Random random(5);
  for (const DType activation : {DType::kF32, DType::kBF16}) {
    TestDevice device(open_reference_device(activation));
    const int64_t hidden = 40;
    const int64_t intermediate = 24;
    ExpertsCase c;
    for (int e = 0; e < 4; ++e) {
      c.gate.push_back(random_weight(random, WeightFormat::kF32, intermediate, hidden));
      c.up.push_back(random_weight(random, WeightFormat::kBF16, intermediate, hidden));
      c.down.push_back(random_weight(random, WeightFormat::kF8Block128, hidden, intermediate));
    }
    c.x = random_rows(random, activation, 3, hidden);
    c.top_k = 2;
    c.ids = {3, 0, 1, 2, 2, 3};
    c.weights = {0.7f, 0.3f, -0.5f, 2.0f, 1.0f, 0.0f};
    const HostRows out = run_experts(device, c);
    const double tolerance = activation == DType::kF32 ? 1e-5 : 3e-3;
    for (int64_t t = 0; t < 3; ++t) {
      std::vector<double> expected(hidden);
      for (size_t s = 0; s < 2; ++s) {
        const size_t slot = static_cast<size_t>(t) * 2 + s;
        const auto e = static_cast<size_t>(c.ids[slot]);
        HostRows inner(activation, 1, intermediate);
        for (int64_t i = 0; i < intermediate; ++i) {
          inner.set(0,
                    i,
                    static_cast<float>(silu_of(product(c.x, t, c.gate[e].row(i))) *
                                       product(c.x, t, c.up[e].row(i))));
        }
        for (int64_t i = 0; i < hidden; ++i) {
          expected[static_cast<size_t>(i)] +=
              double{c.weights[slot]} * product(inner, 0, c.down[e].row(i));
        }
      }
      for (int64_t i = 0; i < hidden; ++i) {
        EXPECT_NEAR(out.at(t, i), expected[static_cast<size_t>(i)], tolerance);
      }
    }
  }
}

TEST(ReferenceExpertsTest, ImpossibleExpertIsAFailureOfTheStream) {
  Random random(6);
  TestDevice device(open_reference_device(DType::kF32));
  const HostWeight w = random_weight(random, WeightFormat::kF32, 8, 8);
  const PackedWeight* gate_up = device.pack({w.source(), w.source()}, Pairing::kGateUp);
  const PackedWeight* down = device.pack({w.source()});
  const PackedExperts experts{1, gate_up, down};
  ExpertsArgs args;
  args.tokens = 1;
  args.top_k = 1;
  args.x = device.output(DType::kF32, 1, 8);
  args.expert_ids = device.upload(std::vector<int32_t>{1});
  args.weights = device.upload(std::vector<float>{1});
  args.experts = &experts;
  args.out = device.output(DType::kF32, 1, 8);
  EXPECT_FALSE(tensor::ok(device.run(&DeviceApi::experts, args)));
}

TEST(ReferencePackTest, RefusesWhatDoesNotFit) {
  TestDevice device(open_reference_device(DType::kF32));
  Random random(7);
  const HostWeight a = random_weight(random, WeightFormat::kF32, 4, 8);
  const HostWeight b = random_weight(random, WeightFormat::kF32, 5, 8);
  const HostWeight c = random_weight(random, WeightFormat::kF32, 4, 9);
  size_t bytes = 0;
  const auto refused = [&](std::vector<WeightSource> parts, Pairing pairing) {
    return device.api()
        .packed_bytes(
            device.handle(), parts.data(), static_cast<int32_t>(parts.size()), pairing, &bytes)
        .code;
  };
  const int32_t invalid = static_cast<int32_t>(ErrorCode::kInvalidArgument) + 1;
  EXPECT_EQ(refused({}, Pairing::kConcatenate), invalid);
  EXPECT_EQ(refused({a.source(), c.source()}, Pairing::kConcatenate), invalid);
  EXPECT_EQ(refused({a.source(), b.source()}, Pairing::kGateUp), invalid);
  EXPECT_EQ(refused({a.source(), b.source()}, Pairing::kConcatenate), 0);
  WeightSource scaleless = a.source();
  scaleless.format = WeightFormat::kF8Block128;
  EXPECT_EQ(refused({scaleless}, Pairing::kConcatenate), invalid);
  WeightSource unknown = a.source();
  unknown.format = static_cast<WeightFormat>(77);
  EXPECT_EQ(refused({unknown}, Pairing::kConcatenate),
            static_cast<int32_t>(ErrorCode::kUnsupported) + 1);
}

}  // namespace
}  // namespace tandem::kernels::testing
