// mla_rope_append and both forms of mla_attend against double precision.

#include <gtest/gtest.h>

#include "kernels/operator_test_cases.h"

namespace tandem::kernels::testing {
namespace {

constexpr MlaShape kShape{3, 8, 4, 6, 16};  // heads, nope, rope, value, latent

MlaAttendCase mla_case(Random& random,
                       const std::vector<SegmentPlan>& plan,
                       WeightFormat format,
                       DType activation) {
  MlaAttendCase c;
  c.batch = make_batch(random, plan);
  c.shape = kShape;
  c.kv_b = random_weight(random, format, 3 * (8 + 6), 16, 0.3f);
  c.q = random_rows(random, activation, c.batch.tokens(), 3 * 12, 2.0f);
  c.cache = random_rows(random, activation, c.batch.blocks * kBlockTokens, 20);
  c.scale = 0.3f;
  return c;
}

// Keys and values expanded, in double.
HostRows expected_mla(const MlaAttendCase& c) {
  HostRows out(c.q.dtype, c.q.rows, 3 * 6);
  const auto expand = [&](int64_t row, int64_t cache_row) {
    const std::vector<float> w = c.kv_b.row(row);
    double sum = 0;
    for (int64_t j = 0; j < 16; ++j) {
      sum += double{w[static_cast<size_t>(j)]} * double{c.cache.at(cache_row, j)};
    }
    return sum;
  };
  for (const Segment& segment : c.batch.segments) {
    for (int64_t h = 0; h < 3; ++h) {
      const int64_t end = int64_t{segment.first_position} + segment.rows;
      std::vector<std::vector<double>> keys;
      std::vector<std::vector<double>> values;
      for (int64_t p = 0; p < end; ++p) {
        const int64_t row = c.batch.slot(segment.sequence, p);
        std::vector<double>& key = keys.emplace_back();
        for (int64_t d = 0; d < 8; ++d) key.push_back(expand(h * 14 + d, row));
        for (int64_t d = 0; d < 4; ++d) key.push_back(c.cache.at(row, 16 + d));
        std::vector<double>& value = values.emplace_back();
        for (int64_t d = 0; d < 6; ++d) value.push_back(expand(h * 14 + 8 + d, row));
      }
      for (int64_t r = 0; r < segment.rows; ++r) {
        const int64_t t = segment.first_row + r;
        double sum = 0;
        double result[6] = {};
        for (int64_t p = 0; p <= segment.first_position + r; ++p) {
          double score = 0;
          for (int64_t d = 0; d < 12; ++d) {
            score += c.q.at(t, h * 12 + d) * keys[static_cast<size_t>(p)][static_cast<size_t>(d)];
          }
          const double weight = std::exp(score * double{c.scale});
          sum += weight;
          for (size_t d = 0; d < 6; ++d) result[d] += weight * values[static_cast<size_t>(p)][d];
        }
        for (int64_t d = 0; d < 6; ++d) out.set(t, h * 6 + d, static_cast<float>(result[d] / sum));
      }
    }
  }
  return out;
}

TEST(ReferenceMlaAttendTest, BothFormsMatchDouble) {
  Random random(1);
  TestDevice device(open_reference_device(DType::kF32));
  for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kF8Block128}) {
    const MlaAttendCase c = mla_case(random,
                                     {{0, 5, MlaForm::kExpanded},
                                      {62, 4, MlaForm::kAbsorbed},
                                      {511, 2, MlaForm::kExpanded},
                                      {1050, 1, MlaForm::kAbsorbed}},
                                     format,
                                     DType::kF32);
    expect_close(run_mla_attend(device, c), expected_mla(c), 5e-6f, 2e-5f);
  }
}

TEST(ReferenceMlaAttendTest, Bf16StorageAndActivations) {
  Random random(2);
  TestDevice device(open_reference_device(DType::kBF16));
  MlaAttendCase c = mla_case(random,
                             {{100, 3, MlaForm::kExpanded}, {30, 2, MlaForm::kAbsorbed}},
                             WeightFormat::kBF16,
                             DType::kBF16);
  c.storage = DType::kBF16;  // exact: the source is bf16 already
  expect_close(run_mla_attend(device, c), expected_mla(c), 1e-5f, 0.004f);
}

TEST(ReferenceMlaAttendTest, FormsRoundDifferently) {
  Random random(3);
  TestDevice device(open_reference_device(DType::kF32));
  MlaAttendCase c = mla_case(random, {{40, 8}}, WeightFormat::kF32, DType::kF32);
  const HostRows absorbed = run_mla_attend(device, c);
  c.batch.segments[0].form = MlaForm::kExpanded;
  const HostRows expanded = run_mla_attend(device, c);
  expect_close(absorbed, expanded, 5e-6f, 2e-5f);
  EXPECT_NE(absorbed.bytes, expanded.bytes);
}

TEST(ReferenceMlaAppendTest, NormalizesTheLatentAndRotatesTheKey) {
  Random random(4);
  TestDevice device(open_reference_device(DType::kF32));
  for (const bool interleaved : {true, false}) {
    MlaAppendCase c;
    c.batch = make_batch(random, {{0, 2}, {65, 1}});
    c.batch.slots[0] = -1;
    c.shape = kShape;
    c.q = random_rows(random, DType::kF32, 3, 36);
    c.kv = random_rows(random, DType::kF32, 3, 20);
    c.latent_norm = random_values(random, 16, 1, 0.3f);
    c.rope = HostRope(80, 4, interleaved);
    c.cache = random_rows(random, DType::kF32, c.batch.blocks * kBlockTokens, 20);

    HostRows q = c.q;
    HostRows cache = c.cache;
    const auto rotate = [&](HostRows& rows, int64_t row, int64_t first, int32_t position) {
      for (int64_t i = 0; i < 2; ++i) {
        const int64_t a = first + (interleaved ? 2 * i : i);
        const int64_t b = first + (interleaved ? 2 * i + 1 : i + 2);
        const double angle = position * std::pow(10000.0, -2.0 * static_cast<double>(i) / 4);
        const double x = rows.at(row, a);
        const double y = rows.at(row, b);
        rows.set(row, a, static_cast<float>(x * std::cos(angle) - y * std::sin(angle)));
        rows.set(row, b, static_cast<float>(y * std::cos(angle) + x * std::sin(angle)));
      }
    };
    for (int64_t t = 0; t < 3; ++t) {
      const int32_t position = c.batch.positions[static_cast<size_t>(t)];
      for (int64_t h = 0; h < 3; ++h) rotate(q, t, h * 12 + 8, position);
      const int64_t slot = c.batch.slots[static_cast<size_t>(t)];
      if (slot < 0) continue;
      double squares = 0;
      for (int64_t i = 0; i < 16; ++i) squares += double{c.kv.at(t, i)} * double{c.kv.at(t, i)};
      for (int64_t i = 0; i < 20; ++i) {
        const double inverse = 1 / std::sqrt(squares / 16 + 1e-6);
        const double factor = i < 16 ? inverse * double{c.latent_norm[static_cast<size_t>(i)]} : 1;
        cache.set(slot, i, static_cast<float>(c.kv.at(t, i) * factor));
      }
      rotate(cache, slot, 16, position);
    }
    const AppendResult got = run_mla_rope_append(device, c);
    expect_close(got.q, q, 1e-6f, 1e-5f);
    expect_close(got.cache, cache, 1e-6f, 1e-5f);
  }
}

}  // namespace
}  // namespace tandem::kernels::testing
