// embed, rms_norm, gather_rows, and what submission refuses.

#include <gtest/gtest.h>

#include "kernels/operator_test_cases.h"

namespace tandem::kernels::testing {
namespace {

EmbedArgs embed_args(TestDevice& device, const HostRows& table, const std::vector<int32_t>& ids) {
  EmbedArgs args;
  args.tokens = static_cast<int32_t>(ids.size());
  args.ids = device.upload(ids);
  args.table = {device.upload(table, 0).data, table.dtype, {table.rows, table.columns}};
  args.out = device.output(DType::kF32, args.tokens, table.columns);
  return args;
}

TEST(ReferenceEmbedTest, LooksUpIdsAndPlaceholders) {
  Random random(1);
  TestDevice device(open_reference_device(DType::kBF16));
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    const HostRows table = random_rows(random, dtype, 10, 7);
    EmbedArgs args = embed_args(device, table, {9, 0, -2, -1});
    args.previous_ids = device.upload(std::vector<int32_t>{4, 5});
    device.run_ok(&DeviceApi::embed, args);
    const HostRows out = device.download(args.out, 4);
    EXPECT_EQ(out.row(0), table.row(9));
    EXPECT_EQ(out.row(1), table.row(0));
    EXPECT_EQ(out.row(2), table.row(5));
    EXPECT_EQ(out.row(3), table.row(4));
  }
}

TEST(ReferenceEmbedTest, IdOutsideTheTableFails) {
  Random random(2);
  TestDevice device(open_reference_device(DType::kF32));
  const HostRows table = random_rows(random, DType::kF32, 10, 7);
  for (const int32_t id : {10, -1}) {
    EXPECT_FALSE(tensor::ok(device.run(&DeviceApi::embed, embed_args(device, table, {id}))));
  }
}

TEST(ReferenceRmsNormTest, AddsThenNormalizes) {
  Random random(3);
  TestDevice device(open_reference_device(DType::kBF16));
  RmsNormCase c;
  c.x = random_rows(random, DType::kF32, 3, 50);
  c.delta = random_rows(random, DType::kF32, 3, 50);
  c.weight = random_values(random, 50, 1, 0.2f);
  c.eps = 0.01f;
  HostRows sum(DType::kF32, 3, 50);
  HostRows expected(DType::kF32, 3, 50);
  HostRows rounded(DType::kBF16, 3, 50);
  for (int64_t t = 0; t < 3; ++t) {
    double squares = 0;
    for (int64_t i = 0; i < 50; ++i) {
      sum.set(t, i, c.x.at(t, i) + c.delta.at(t, i));
      squares += double{sum.at(t, i)} * double{sum.at(t, i)};
    }
    for (int64_t i = 0; i < 50; ++i) {
      const double value = sum.at(t, i) / std::sqrt(squares / 50 + double{c.eps}) *
                           double{c.weight[static_cast<size_t>(i)]};
      expected.set(t, i, static_cast<float>(value));
      rounded.set(t, i, static_cast<float>(value));
    }
  }
  const RmsNormResult f32 = run_rms_norm(device, c);
  expect_equal_bits(f32.x, sum);
  expect_close(f32.out, expected, 0, 1e-6f);
  c.out_dtype = DType::kBF16;
  expect_close(run_rms_norm(device, c).out, rounded, 0, 0.004f);
}

TEST(ReferenceRmsNormTest, InPlaceAndAdditionOnly) {
  Random random(4);
  TestDevice device(open_reference_device(DType::kF32));
  RmsNormCase c;
  c.x = random_rows(random, DType::kF32, 2, 8);
  c.weight = random_values(random, 8, 1, 0.2f);
  const HostRows expected = run_rms_norm(device, c).out;
  RmsNormArgs args;
  args.tokens = 2;
  args.x = device.upload(c.x);
  args.weight = device.upload(c.weight);
  args.eps = c.eps;
  args.out = args.x;
  device.run_ok(&DeviceApi::rms_norm, args);
  expect_equal_bits(device.download(args.x, 2), expected);

  args = {};
  args.tokens = 2;
  args.x = device.upload(c.x);
  args.delta = device.upload(c.x);
  device.run_ok(&DeviceApi::rms_norm, args);
  EXPECT_EQ(device.download(args.x, 2).at(1, 3), 2 * c.x.at(1, 3));
}

TEST(ReferenceGatherTest, CopiesRows) {
  Random random(5);
  TestDevice device(open_reference_device(DType::kBF16));
  const HostRows source = random_rows(random, DType::kBF16, 4, 9);
  GatherRowsArgs args;
  args.count = 3;
  args.rows = device.upload(std::vector<int32_t>{3, 0, 3});
  args.source = device.upload(source);
  args.out = device.output(DType::kBF16, 3, 9);
  device.run_ok(&DeviceApi::gather_rows, args);
  const HostRows out = device.download(args.out, 3);
  EXPECT_EQ(out.row(0), source.row(3));
  EXPECT_EQ(out.row(1), source.row(0));
  EXPECT_EQ(out.row(2), source.row(3));
}

TEST(ValidationTest, NothingIsSubmittedForBadArguments) {
  Random random(6);
  TestDevice device(open_reference_device(DType::kBF16));
  const HostWeight weight = random_weight(random, WeightFormat::kF32, 6, 8);
  LinearArgs good;
  good.tokens = 2;
  good.x = device.output(DType::kBF16, 2, 8);
  good.weight = device.pack({weight.source()});
  good.out = device.output(DType::kF32, 2, 6);
  device.run_ok(&DeviceApi::linear, good);

  const auto refused = [&](auto change) {
    LinearArgs args = good;
    change(args);
    const Status status = device.api().linear(device.handle(), device.stream(), &args);
    EXPECT_NE(std::string(status.message).find("linear"), std::string::npos) << status.message;
    return status.code == static_cast<int32_t>(ErrorCode::kInvalidArgument) + 1;
  };
  EXPECT_TRUE(refused([](LinearArgs& a) { a.tokens = -1; }));
  EXPECT_TRUE(refused([](LinearArgs& a) { a.x.data = nullptr; }));
  EXPECT_TRUE(refused([](LinearArgs& a) { a.x.dtype = DType::kF16; }));
  EXPECT_TRUE(refused([](LinearArgs& a) { a.x.columns = 7; }));
  EXPECT_TRUE(refused([](LinearArgs& a) { a.x.stride = 7; }));
  EXPECT_TRUE(refused([](LinearArgs& a) { a.weight = nullptr; }));
  EXPECT_TRUE(refused([](LinearArgs& a) { a.out.columns = 3; }));
  EXPECT_TRUE(refused([](LinearArgs& a) { a.epilogue = Epilogue::kSiluMul; }));
  EXPECT_TRUE(refused([](LinearArgs& a) { a.epilogue = static_cast<Epilogue>(9); }));
  EXPECT_TRUE(refused([](LinearArgs& a) {
    a.epilogue = Epilogue::kAdd;
    a.out.dtype = DType::kBF16;
  }));
  EXPECT_FALSE(tensor::ok(device.api().linear(device.handle(), nullptr, &good)));
  EXPECT_FALSE(tensor::ok(device.api().linear(device.handle(), device.stream(), nullptr)));
  good.tokens = 0;
  good.x.data = nullptr;
  device.run_ok(&DeviceApi::linear, good);
}

TEST(ValidationTest, DescribesItself) {
  TestDevice device(open_reference_device(DType::kBF16));
  EXPECT_STREQ(device.info().instruction_set, "reference");
  EXPECT_EQ(device.activation(), DType::kBF16);
  EXPECT_EQ(device.api().version, kDeviceApiVersion);
  EXPECT_FALSE(open_reference_device(DType::kF16).has_value());
}

}  // namespace
}  // namespace tandem::kernels::testing
