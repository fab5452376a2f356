// rope_append and attend against double precision.

#include <gtest/gtest.h>

#include "kernels/operator_test_cases.h"

namespace tandem::kernels::testing {
namespace {

using Doubles = std::vector<double>;

Doubles normalize(Doubles x, const std::vector<float>& weight, double eps) {
  double squares = 0;
  for (const double v : x) squares += v * v;
  const double inverse = 1 / std::sqrt(squares / static_cast<double>(x.size()) + eps);
  for (size_t i = 0; i < x.size(); ++i) x[i] *= inverse * double{weight[i]};
  return x;
}

// Rotation of pairs by definition: complex multiplication.
Doubles rotate(Doubles x, int32_t rotary, bool interleaved, int32_t position) {
  for (int32_t i = 0; i < rotary / 2; ++i) {
    const double angle = position * std::pow(10000.0, -2.0 * i / rotary);
    double& a = x[static_cast<size_t>(interleaved ? 2 * i : i)];
    double& b = x[static_cast<size_t>(interleaved ? 2 * i + 1 : i + rotary / 2)];
    const double rotated = a * std::cos(angle) - b * std::sin(angle);
    b = b * std::cos(angle) + a * std::sin(angle);
    a = rotated;
  }
  return x;
}

Doubles part(const HostRows& rows, int64_t r, int64_t first, int64_t count) {
  Doubles out;
  for (int64_t i = 0; i < count; ++i) out.push_back(rows.at(r, first + i));
  return out;
}

RopeAppendCase append_case(Random& random, bool norms, bool interleaved, int32_t rotary) {
  RopeAppendCase c;
  c.batch = make_batch(random, {{0, 3}, {70, 1}, {61, 5}});
  c.heads = 4;
  c.kv_heads = 2;
  c.head_dim = 16;
  c.qkv = random_rows(random, DType::kF32, 9, 8 * 16);
  if (norms) {
    c.q_norm = random_values(random, 16, 1, 0.3f);
    c.k_norm = random_values(random, 16, 1, 0.3f);
  }
  c.rope = HostRope(100, rotary, interleaved);
  c.cache = random_rows(random, DType::kF32, c.batch.blocks * 2 * 2 * kBlockTokens, 16);
  return c;
}

TEST(ReferenceRopeAppendTest, RotatesNormalizesAndAppends) {
  Random random(1);
  TestDevice device(open_reference_device(DType::kF32));
  for (const bool norms : {false, true}) {
    for (const bool interleaved : {false, true}) {
      for (const int32_t rotary : {16, 8}) {
        RopeAppendCase c = append_case(random, norms, interleaved, rotary);
        c.batch.slots[1] = -1;
        const AppendResult got = run_rope_append(device, c);
        HostRows cache = c.cache;
        HostRows q(DType::kF32, 9, 64);
        for (int32_t t = 0; t < 9; ++t) {
          const int32_t position = c.batch.positions[static_cast<size_t>(t)];
          const int64_t slot = c.batch.slots[static_cast<size_t>(t)];
          for (int64_t h = 0; h < 6; ++h) {
            Doubles head = part(c.qkv, t, h * 16, 16);
            if (norms) head = normalize(head, h < 4 ? c.q_norm : c.k_norm, 1e-6);
            head = rotate(head, rotary, interleaved, position);
            for (int64_t i = 0; i < 16; ++i) {
              const auto value = static_cast<float>(head[static_cast<size_t>(i)]);
              if (h < 4) {
                q.set(t, h * 16 + i, value);
              } else if (slot >= 0) {
                cache.set(cache_index(slot, h - 4, 4), i, value);
              }
            }
          }
          for (int64_t h = 0; slot >= 0 && h < 2; ++h) {
            for (int64_t i = 0; i < 16; ++i) {
              cache.set(cache_index(slot, 2 + h, 4), i, c.qkv.at(t, (6 + h) * 16 + i));
            }
          }
        }
        expect_close(got.q, q, 1e-5f, 1e-5f);
        expect_close(got.cache, cache, 1e-5f, 1e-5f);
      }
    }
  }
}

TEST(ReferenceRopeAppendTest, RoundsToTheCachesType) {
  Random random(2);
  TestDevice device(open_reference_device(DType::kBF16));
  RopeAppendCase c = append_case(random, true, false, 16);
  TestDevice exact(open_reference_device(DType::kF32));
  const AppendResult full = run_rope_append(exact, c);
  HostRows cache(DType::kBF16, c.cache.rows, 16);
  c.cache = cache;
  const AppendResult got = run_rope_append(device, c);
  HostRows q(DType::kBF16, 9, 64);
  for (int64_t t = 0; t < 9; ++t) {
    for (int64_t i = 0; i < 64; ++i) q.set(t, i, full.q.at(t, i));
    for (int64_t row = 0; row < 4; ++row) {
      const int64_t index = cache_index(c.batch.slots[static_cast<size_t>(t)], row, 4);
      for (int64_t i = 0; i < 16; ++i) cache.set(index, i, full.cache.at(index, i));
    }
  }
  expect_equal_bits(got.q, q);
  expect_equal_bits(got.cache, cache);
}

TEST(ReferenceRopeAppendTest, ImpossibleSlotFails) {
  Random random(3);
  TestDevice device(open_reference_device(DType::kF32));
  const RopeAppendCase c = append_case(random, false, false, 16);
  RopeAppendArgs args;
  HostBatch batch = c.batch;
  batch.slots[0] = -2;
  args.batch = upload(device, batch);
  args.qkv = device.upload(c.qkv);
  args.heads = 4;
  args.rope = upload(device, c.rope);
  args.q = device.output(DType::kF32, 9, 64);
  args.cache = upload_cache(device, c.cache, 2, 16, 4);
  EXPECT_FALSE(tensor::ok(device.run(&DeviceApi::rope_append, args)));
}

Doubles attention(const Doubles& q,
                  const std::vector<Doubles>& keys,
                  const std::vector<Doubles>& values,
                  double scale) {
  Doubles scores;
  for (const Doubles& k : keys) {
    scores.push_back(scale * std::inner_product(q.begin(), q.end(), k.begin(), 0.0));
  }
  const double maximum = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  Doubles out(values[0].size());
  for (size_t p = 0; p < keys.size(); ++p) {
    const double weight = std::exp(scores[p] - maximum);
    sum += weight;
    for (size_t i = 0; i < out.size(); ++i) out[i] += weight * values[p][i];
  }
  for (double& v : out) v /= sum;
  return out;
}

AttendCase attend_case(Random& random, const std::vector<SegmentPlan>& plan, DType activation) {
  AttendCase c;
  c.batch = make_batch(random, plan);
  c.heads = 6;
  c.kv_heads = 2;
  c.head_dim = 8;
  c.q = random_rows(random, activation, c.batch.tokens(), 48, 2.0f);
  c.cache = random_rows(random, activation, c.batch.blocks * 4 * kBlockTokens, 8);
  c.scale = 0.35f;
  return c;
}

HostRows expected_attend(const AttendCase& c) {
  HostRows out(c.q.dtype, c.q.rows, c.q.columns);
  for (const Segment& segment : c.batch.segments) {
    for (int64_t r = 0; r < segment.rows; ++r) {
      for (int64_t h = 0; h < c.heads; ++h) {
        const int64_t kv = h / (c.heads / c.kv_heads);
        std::vector<Doubles> keys;
        std::vector<Doubles> values;
        for (int64_t p = 0; p <= segment.first_position + r; ++p) {
          const int64_t slot = c.batch.slot(segment.sequence, p);
          keys.push_back(part(c.cache, cache_index(slot, kv, 4), 0, 8));
          values.push_back(part(c.cache, cache_index(slot, 2 + kv, 4), 0, 8));
        }
        const int64_t t = segment.first_row + r;
        const Doubles o = attention(part(c.q, t, h * 8, 8), keys, values, double{c.scale});
        for (int64_t i = 0; i < 8; ++i) {
          out.set(t, h * 8 + i, static_cast<float>(o[static_cast<size_t>(i)]));
        }
      }
    }
  }
  return out;
}

TEST(ReferenceAttendTest, MatchesDouble) {
  Random random(4);
  const std::vector<SegmentPlan> plan = {{0, 5}, {63, 2}, {511, 3}, {1100, 1}};
  TestDevice f32(open_reference_device(DType::kF32));
  const AttendCase a = attend_case(random, plan, DType::kF32);
  expect_close(run_attend(f32, a), expected_attend(a), 2e-6f, 1e-5f);
  TestDevice bf16(open_reference_device(DType::kBF16));
  const AttendCase b = attend_case(random, plan, DType::kBF16);
  expect_close(run_attend(bf16, b), expected_attend(b), 1e-5f, 0.004f);
}

// "Same answer": how a prompt was cut into chunks, and what else is in the batch, changes no bit.
TEST(ReferenceAttendTest, ChunksGiveTheSameBits) {
  Random random(5);
  TestDevice device(open_reference_device(DType::kF32));
  AttendCase whole = attend_case(random, {{0, 600}}, DType::kF32);
  const HostRows expected = run_attend(device, whole);
  AttendCase chunk = whole;
  chunk.batch.segments = {{0, 0, 77, 523}};
  chunk.batch.positions.assign(whole.batch.positions.begin() + 523, whole.batch.positions.end());
  chunk.batch.slots.assign(whole.batch.slots.begin() + 523, whole.batch.slots.end());
  chunk.q = HostRows(DType::kF32, 77, 48);
  HostRows tail(DType::kF32, 77, 48);
  for (int64_t r = 0; r < 77; ++r) {
    for (int64_t i = 0; i < 48; ++i) {
      chunk.q.set(r, i, whole.q.at(523 + r, i));
      tail.set(r, i, expected.at(523 + r, i));
    }
  }
  expect_equal_bits(run_attend(device, chunk), tail);
}

TEST(ReferenceAttendTest, RefusesSegmentsThatDoNotFit) {
  Random random(6);
  TestDevice device(open_reference_device(DType::kF32));
  const AttendCase c = attend_case(random, {{0, 5}, {63, 2}}, DType::kF32);
  const auto refused = [&](auto change) {
    HostBatch batch = c.batch;
    change(batch);
    AttendArgs args;
    args.batch = upload(device, batch);
    args.batch.tokens = 7;
    args.q = device.upload(c.q);
    args.heads = c.heads;
    args.scale = c.scale;
    args.cache = upload_cache(device, c.cache, 2, 8, 4);
    args.out = device.output(DType::kF32, 7, 48);
    return !tensor::ok(device.run(&DeviceApi::attend, args));
  };
  EXPECT_FALSE(refused([](HostBatch&) {}));
  EXPECT_TRUE(refused([](HostBatch& b) { b.segments[1].first_row = 4; }));
  EXPECT_TRUE(refused([](HostBatch& b) { b.segments[1].rows = 1; }));
  EXPECT_TRUE(refused([](HostBatch& b) { b.segments[1].rows = 3; }));
  EXPECT_TRUE(refused([](HostBatch& b) { b.segments[1].first_position = 127; }));
  EXPECT_TRUE(refused([](HostBatch& b) { b.segments[1].first_position = -1; }));
  EXPECT_TRUE(refused([](HostBatch& b) { b.segments.pop_back(); }));
  EXPECT_TRUE(refused([](HostBatch& b) { b.block_table[0] = -5; }));
}

}  // namespace
}  // namespace tandem::kernels::testing
