#include "kernels/cpu/common/cpu_test_util.h"

namespace tandem::kernels::testing {
namespace {

AttendCase attend_case(Random& random,
                       DType activation,
                       DType cache,
                       const std::vector<SegmentPlan>& plan,
                       int32_t heads,
                       int32_t kv_heads,
                       int32_t dim) {
  AttendCase c;
  c.batch = make_batch(random, plan);
  c.heads = heads;
  c.kv_heads = kv_heads;
  c.head_dim = dim;
  c.scale = 1.0f / std::sqrt(static_cast<float>(dim));
  c.q = random_rows(random, activation, c.batch.tokens(), int64_t{heads} * dim, 2.0f);
  c.cache = random_rows(random, cache, int64_t{c.batch.blocks} * 2 * kv_heads * kBlockTokens, dim);
  return c;
}

// The same case for rows [first, first + count) of one segment.
template <class Case>
Case part_of(const Case& all, int32_t segment, int32_t first, int32_t count) {
  Case c = all;
  Segment s = all.batch.segments[static_cast<size_t>(segment)];
  c.q = rows_of(all.q, s.first_row + first, count);
  s.first_position += first;
  s.first_row = 0;
  s.rows = count;
  c.batch.segments = {s};
  c.batch.positions.clear();
  c.batch.slots.clear();
  for (int32_t r = 0; r < count; ++r) {
    c.batch.positions.push_back(s.first_position + r);
    c.batch.slots.push_back(-1);
  }
  return c;
}

const std::vector<SegmentPlan> kRagged = {{0, 5}, {700, 1}, {60, 9}, {511, 1}, {500, 30}};

TEST(CpuAttend, EqualsTheReference) {
  Random random(10);
  struct Heads {
    int32_t heads;
    int32_t kv_heads;
    int32_t dim;
  };
  for (const DType activation : {DType::kF32, DType::kBF16}) {
    TestDevice reference(open_reference_device(activation));
    for (const Heads h : {Heads{4, 4, 64}, {7, 1, 48}, {6, 2, 128}}) {
      const AttendCase c =
          attend_case(random, activation, activation, kRagged, h.heads, h.kv_heads, h.dim);
      const HostRows expected = run_attend(reference, c);
      HostRows first;
      for (const auto set : instruction_sets()) {
        const HostRows got = run_attend(*cpu_device(activation, set, 2), c);
        expect_close(got, expected, 2e-6f, tolerance(activation), to_string(set));
        if (first.rows == 0) first = got;
        expect_equal_bits(got, first, to_string(set));
      }
    }
  }
}

TEST(CpuAttend, BitsDependNeitherOnTheBatchNorOnChunksNorOnThreads) {
  Random random(11);
  const AttendCase all =
      attend_case(random, DType::kBF16, DType::kBF16, {{0, 600}, {1500, 1}}, 4, 2, 64);
  const HostRows expected = run_attend(*best_device(DType::kBF16), all);
  for (const int threads : {2, 5}) {
    expect_equal_bits(run_attend(*best_device(DType::kBF16, threads), all), expected, "threads");
  }
  for (int32_t first = 0; first < 600; first += 97) {
    const int32_t count = std::min(97, 600 - first);
    const AttendCase part = part_of(all, 0, first, count);
    expect_equal_bits(run_attend(*best_device(DType::kBF16), part),
                      rows_of(expected, first, count),
                      "chunk at " + std::to_string(first));
  }
  // Alone and on many members: splits in parallel.
  for (const int threads : {1, 4}) {
    expect_equal_bits(run_attend(*best_device(DType::kBF16, threads), part_of(all, 1, 0, 1)),
                      rows_of(expected, 600, 1),
                      "decode");
  }
}

// Rows that were not written yet may hold anything.
TEST(CpuAttend, NothingBehindARowsPositionIsRead) {
  Random random(12);
  AttendCase c = attend_case(random, DType::kF32, DType::kF32, {{66, 3}}, 2, 1, 32);
  const HostRows expected = run_attend(*best_device(DType::kF32), c);
  for (int64_t p = 69; p < 128; ++p) {
    for (int64_t row = 0; row < 2; ++row) {
      const int64_t index = cache_index(c.batch.slot(0, p), row, 2);
      for (int64_t d = 0; d < 32; ++d) c.cache.set(index, d, std::nanf(""));
    }
  }
  for (const auto set : instruction_sets()) {
    expect_equal_bits(run_attend(*cpu_device(DType::kF32, set), c), expected, to_string(set));
  }
}

TEST(CpuAttend, AnImpossibleBlockFailsTheOperator) {
  Random random(13);
  AttendCase c = attend_case(random, DType::kF32, DType::kF32, {{66, 3}}, 2, 1, 32);
  c.batch.block_table[1] = -1;
  const auto device = best_device(DType::kF32);
  AttendArgs args;
  args.batch = upload(*device, c.batch);
  args.q = device->upload(c.q);
  args.heads = 2;
  args.cache = upload_cache(*device, c.cache, 1, 32, 2);
  args.out = device->output(DType::kF32, 3, 64);
  EXPECT_FALSE(tensor::ok(device->run(&DeviceApi::attend, args)));
}

MlaAttendCase mla_case(Random& random,
                       DType activation,
                       const std::vector<SegmentPlan>& plan,
                       const MlaShape& shape) {
  MlaAttendCase c;
  c.batch = make_batch(random, plan);
  c.shape = shape;
  c.kv_b = random_weight(random,
                         WeightFormat::kF8Block128,
                         int64_t{shape.heads} * (shape.nope + shape.value),
                         shape.latent);
  c.storage = activation;
  c.scale = 1.0f / std::sqrt(static_cast<float>(shape.nope + shape.rope));
  c.q = random_rows(
      random, activation, c.batch.tokens(), int64_t{shape.heads} * (shape.nope + shape.rope));
  c.cache = random_rows(
      random, activation, int64_t{c.batch.blocks} * kBlockTokens, shape.latent + shape.rope);
  return c;
}

constexpr MlaShape kShapes[] = {
    {.heads = 5, .nope = 24, .rope = 8, .value = 20, .latent = 40},
    {.heads = 16, .nope = 128, .rope = 64, .value = 128, .latent = 512},
};
const std::vector<SegmentPlan> kForms = {{0, 70, MlaForm::kExpanded},
                                         {70, 3, MlaForm::kAbsorbed},
                                         {600, 1, MlaForm::kAbsorbed},
                                         {500, 20, MlaForm::kExpanded}};

TEST(CpuMlaAttend, EqualsTheReference) {
  Random random(14);
  for (const DType activation : {DType::kF32, DType::kBF16}) {
    TestDevice reference(open_reference_device(activation));
    for (const MlaShape& shape : kShapes) {
      const std::vector<SegmentPlan> plan =
          shape.heads == 5
              ? kForms
              : std::vector<SegmentPlan>{{0, 4, MlaForm::kExpanded}, {66, 2, MlaForm::kAbsorbed}};
      const MlaAttendCase c = mla_case(random, activation, plan, shape);
      const HostRows expected = run_mla_attend(reference, c);
      HostRows first;
      for (const auto set : instruction_sets()) {
        const HostRows got = run_mla_attend(*cpu_device(activation, set, 2), c);
        expect_close(got, expected, 3e-5f, tolerance(activation), to_string(set));
        if (first.rows == 0) first = got;
        expect_equal_bits(got, first, to_string(set));
      }
    }
  }
}

TEST(CpuMlaAttend, BitsDependNeitherOnTheBatchNorOnChunksNorOnThreads) {
  Random random(15);
  for (const MlaForm form : {MlaForm::kAbsorbed, MlaForm::kExpanded}) {
    const MlaAttendCase all =
        mla_case(random, DType::kBF16, {{0, 560, form}, {1100, 1, form}}, kShapes[0]);
    const HostRows expected = run_mla_attend(*best_device(DType::kBF16), all);
    for (const int threads : {2, 7}) {
      const HostRows got = run_mla_attend(*best_device(DType::kBF16, threads), all);
      expect_equal_bits(got, expected, "threads");
    }
    for (int32_t first = 0; first < 560; first += 131) {
      const int32_t count = std::min(131, 560 - first);
      const MlaAttendCase part = part_of(all, 0, first, count);
      expect_equal_bits(run_mla_attend(*best_device(DType::kBF16), part),
                        rows_of(expected, first, count),
                        "chunk at " + std::to_string(first));
    }
    for (const int threads : {1, 6}) {
      const HostRows got =
          run_mla_attend(*best_device(DType::kBF16, threads), part_of(all, 1, 0, 1));
      expect_equal_bits(got, rows_of(expected, 560, 1), "decode");
    }
  }
}

}  // namespace
}  // namespace tandem::kernels::testing
