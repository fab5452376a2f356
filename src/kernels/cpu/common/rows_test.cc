#include "kernels/cpu/common/cpu_test_util.h"

namespace tandem::kernels::testing {
namespace {

TEST(CpuRmsNorm, EqualsTheReference) {
  Random random(20);
  TestDevice reference(open_reference_device(DType::kBF16));
  for (const int64_t n : {1, 17, 64, 250, 1000}) {
    for (const DType out : {DType::kF32, DType::kBF16}) {
      RmsNormCase c;
      c.x = random_rows(random, DType::kF32, 40, n, 3.0f);
      if (out == DType::kF32) c.delta = random_rows(random, DType::kF32, 40, n);
      c.weight = random_values(random, n, 1, 0.2f);
      c.out_dtype = out;
      const RmsNormResult expected = run_rms_norm(reference, c);
      HostRows first;
      for (const auto set : instruction_sets()) {
        const RmsNormResult got = run_rms_norm(*cpu_device(DType::kBF16, set, 2), c);
        expect_equal_bits(got.x, expected.x, to_string(set));
        expect_close(got.out, expected.out, 1e-6f, tolerance(out), to_string(set));
        if (first.rows == 0) first = got.out;
        expect_equal_bits(got.out, first, to_string(set));
      }
    }
  }
}

TEST(CpuRopeAppend, EqualsTheReference) {
  Random random(21);
  for (const DType activation : {DType::kF32, DType::kBF16}) {
    TestDevice reference(open_reference_device(activation));
    for (const bool norms : {false, true}) {
      RopeAppendCase c;
      c.batch = make_batch(random, {{0, 70}, {130, 1}, {5, 3}});
      c.batch.slots[2] = -1;
      c.heads = 6;
      c.kv_heads = 2;
      c.head_dim = 40;
      c.qkv = random_rows(random, DType::kF32, c.batch.tokens(), 10 * 40);
      if (norms) {
        c.q_norm = random_values(random, 40, 1, 0.1f);
        c.k_norm = random_values(random, 40, 1, 0.1f);
      }
      c.rope = HostRope(200, norms ? 40 : 24, norms);
      c.cache =
          random_rows(random, activation, int64_t{c.batch.blocks} * 4 * kBlockTokens, c.head_dim);
      const AppendResult expected = run_rope_append(reference, c);
      for (const auto set : instruction_sets()) {
        const AppendResult got = run_rope_append(*cpu_device(activation, set, 2), c);
        expect_close(got.q, expected.q, 1e-6f, tolerance(activation), to_string(set));
        expect_close(got.cache, expected.cache, 1e-6f, tolerance(activation), to_string(set));
      }
    }
  }
}

TEST(CpuMlaRopeAppend, EqualsTheReference) {
  Random random(22);
  for (const DType activation : {DType::kF32, DType::kBF16}) {
    TestDevice reference(open_reference_device(activation));
    MlaAppendCase c;
    c.batch = make_batch(random, {{0, 70}, {130, 1}});
    c.batch.slots[2] = -1;
    c.shape = {.heads = 5, .nope = 24, .rope = 16, .value = 20, .latent = 40};
    c.q = random_rows(random, DType::kF32, c.batch.tokens(), 5 * 40);
    c.kv = random_rows(random, DType::kF32, c.batch.tokens(), 56);
    c.latent_norm = random_values(random, 40, 1, 0.1f);
    c.rope = HostRope(200, 16, true);
    c.cache = random_rows(random, activation, int64_t{c.batch.blocks} * kBlockTokens, 56);
    const AppendResult expected = run_mla_rope_append(reference, c);
    for (const auto set : instruction_sets()) {
      const AppendResult got = run_mla_rope_append(*cpu_device(activation, set, 2), c);
      expect_close(got.q, expected.q, 1e-6f, tolerance(activation), to_string(set));
      expect_close(got.cache, expected.cache, 1e-6f, tolerance(activation), to_string(set));
    }
  }
}

TEST(CpuEmbedAndGather, CopyExactly) {
  Random random(23);
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    const HostRows table = random_rows(random, type, 50, 37);
    for (const auto set : instruction_sets()) {
      const auto device = cpu_device(DType::kF32, set, 2);
      EmbedArgs args;
      args.tokens = 4;
      args.ids = device->upload(std::vector<int32_t>{49, ~1, 0, ~0});
      args.previous_ids = device->upload(std::vector<int32_t>{7, 8});
      args.table = {device->upload(table, 0).data, type, {50, 37}};
      args.out = device->output(DType::kF32, 4, 37);
      device->run_ok(&DeviceApi::embed, args);
      const HostRows embedded = device->download(args.out, 4);
      GatherRowsArgs gather;
      gather.count = 3;
      gather.rows = device->upload(std::vector<int32_t>{3, 0, 3});
      gather.source = args.out;
      gather.out = device->output(DType::kF32, 3, 37);
      device->run_ok(&DeviceApi::gather_rows, gather);
      const HostRows gathered = device->download(gather.out, 3);
      const int64_t wanted[] = {49, 8, 0, 7};
      for (int64_t t = 0; t < 4; ++t) EXPECT_EQ(embedded.row(t), table.row(wanted[t]));
      EXPECT_EQ(gathered.row(0), table.row(7));
      EXPECT_EQ(gathered.row(1), table.row(49));
      EXPECT_EQ(gathered.row(2), table.row(7));
    }
  }
}

TEST(CpuEmbed, AnImpossibleIdFailsTheOperator) {
  const auto device = best_device(DType::kF32);
  EmbedArgs args;
  args.tokens = 1;
  args.ids = device->upload(std::vector<int32_t>{4});
  args.table = {device->upload(std::vector<float>(12)), DType::kF32, {4, 3}};
  args.out = device->output(DType::kF32, 1, 3);
  EXPECT_FALSE(tensor::ok(device->run(&DeviceApi::embed, args)));
}

}  // namespace
}  // namespace tandem::kernels::testing
