#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>

#include "base/json.h"
#include "base/random.h"
#include "kernels/operator_test_cases.h"
#include "kernels/reference/process_logits.h"

namespace tandem::kernels::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

HostRows rows_of(const std::vector<std::vector<float>>& values) {
  HostRows rows(
      DType::kF32, static_cast<int64_t>(values.size()), static_cast<int64_t>(values[0].size()));
  for (int64_t r = 0; r < rows.rows; ++r) {
    for (int64_t c = 0; c < rows.columns; ++c) {
      rows.set(r, c, values[static_cast<size_t>(r)][static_cast<size_t>(c)]);
    }
  }
  return rows;
}

std::vector<HistoryEntry> history_of(const std::vector<int32_t>& prompt,
                                     const std::vector<int32_t>& output) {
  std::vector<HistoryEntry> history;
  const auto entry = [&](int32_t id) -> HistoryEntry& {
    for (HistoryEntry& e : history) {
      if (e.id == id) return e;
    }
    return history.emplace_back(HistoryEntry{id, 0, 0});
  };
  for (const int32_t id : prompt) entry(id).in_prompt = 1;
  for (const int32_t id : output) ++entry(id).output_count;
  return history;
}

// The part of the parameters that the engine turns into a mask: allowed ids, bad words, min_tokens.
std::vector<uint32_t> mask_of(const Json& params, const std::vector<int32_t>& output, int32_t n) {
  std::vector<bool> allowed(static_cast<size_t>(n), true);
  if (params.contains("allowed_token_ids")) {
    allowed.assign(allowed.size(), false);
    for (const auto& id : params["allowed_token_ids"]) allowed[id.get<size_t>()] = true;
  }
  for (const auto& word : params.value("bad_words_ids", Json::array())) {
    const auto ids = word.get<std::vector<int32_t>>();
    const size_t before = ids.size() - 1;
    if (output.size() >= before &&
        std::equal(ids.begin(), ids.end() - 1, output.end() - static_cast<long>(before))) {
      allowed[static_cast<size_t>(ids.back())] = false;
    }
  }
  if (output.size() < params.value("min_tokens", size_t{0})) {
    for (const auto& id : params["stop_token_ids"]) allowed[id.get<size_t>()] = false;
  }
  std::vector<uint32_t> mask(static_cast<size_t>((n + 31) / 32));
  for (size_t id = 0; id < allowed.size(); ++id) {
    if (allowed[id]) mask[id / 32] |= 1u << (id % 32);
  }
  return mask;
}

struct GoldenCase {
  std::string name;
  SampleRow row;
  std::vector<float> logits;
  std::vector<uint32_t> mask;
  std::vector<int32_t> bias_ids;
  std::vector<float> bias_values;
  std::vector<HistoryEntry> history;

  SampleRowData data() const { return {mask.data(), bias_ids, bias_values, history}; }
};

GoldenCase read_case(const Json& json) {
  GoldenCase c;
  const Json& params = json["params"];
  c.name = json["name"];
  c.logits = json["logits"].get<std::vector<float>>();
  c.row.temperature = params.value("temperature", 1.0f);
  c.row.top_k = params.value("top_k", 0);
  c.row.top_p = params.value("top_p", 1.0f);
  c.row.min_p = params.value("min_p", 0.0f);
  c.row.repetition_penalty = params.value("repetition_penalty", 1.0f);
  c.row.presence_penalty = params.value("presence_penalty", 0.0f);
  c.row.frequency_penalty = params.value("frequency_penalty", 0.0f);
  const Json biases = params.value("logit_bias", Json::object());
  for (const auto& [id, value] : biases.items()) {
    c.bias_ids.push_back(std::stoi(id));
    c.bias_values.push_back(value.get<float>());
  }
  const auto output = json["output_ids"].get<std::vector<int32_t>>();
  c.history = history_of(json["prompt_ids"].get<std::vector<int32_t>>(), output);
  c.mask = mask_of(params, output, static_cast<int32_t>(c.logits.size()));
  return c;
}

Json read_golden() {
  const char* shared = std::getenv("TANDEM_SHARED_DIR");
  for (const std::string& path :
       {std::string(TANDEM_SOURCE_DIR "/tests/golden/sampling_cases.json"),
        std::string(shared ? shared : "") + "/golden/sampling_cases.json"}) {
    std::ifstream file(path);
    if (!file) continue;
    std::stringstream text;
    text << file.rdbuf();
    return parse_json(text.str()).value();
  }
  return {};
}

TEST(ProcessLogitsTest, GoldenCases) {
  const Json golden = read_golden();
  ASSERT_TRUE(golden.contains("cases")) << "tests/golden/sampling_cases.json is missing";
  ASSERT_GT(golden["cases"].size(), 100u);
  for (const Json& json : golden["cases"]) {
    const GoldenCase c = read_case(json);
    std::vector<float> adjusted = c.logits;
    adjust_logits(adjusted, c.row, c.data());
    EXPECT_EQ(argmax(adjusted), json["argmax_after_penalties"]) << c.name;

    std::vector<float> out = c.logits;
    ASSERT_TRUE(process_logits(out, c.row, c.data())) << c.name;
    std::vector<int32_t> allowed;
    for (size_t id = 0; id < out.size(); ++id) {
      if (!std::isinf(out[id])) allowed.push_back(static_cast<int32_t>(id));
    }
    ASSERT_EQ(allowed, json["allowed"].get<std::vector<int32_t>>()) << c.name;
    const auto expected = json["probabilities"].get<std::vector<double>>();
    for (size_t i = 0; i < allowed.size(); ++i) {
      const double got = std::exp(double{out[static_cast<size_t>(allowed[i])]});
      EXPECT_NEAR(got, expected[i], 1e-7 + 1e-4 * expected[i]) << c.name << " " << allowed[i];
    }
  }
}

// The whole operator on the same cases: drawn ids are allowed, raw log-probabilities are reported.
TEST(ReferenceSampleTest, GoldenCasesDrawFromTheAllowed) {
  const Json golden = read_golden();
  TestDevice device(open_reference_device(DType::kF32));
  for (const Json& json : golden["cases"]) {
    const GoldenCase c = read_case(json);
    const auto allowed = json["allowed"].get<std::vector<int32_t>>();
    SampleCase s;
    s.logits = rows_of({c.logits, c.logits});
    s.bias_ids = c.bias_ids;
    s.bias_values = c.bias_values;
    s.history = c.history;
    s.masks = c.mask;
    s.max_top_logprobs = 5;
    SampleRow row = c.row;
    row.bias_count = static_cast<int32_t>(c.bias_ids.size());
    row.history_count = static_cast<int32_t>(c.history.size());
    row.mask_row = 0;
    row.top_logprobs = 5;
    row.seed = 7;
    s.rows = {row, row};
    s.rows[1].position = 1;
    const SampleOutput out = run_sample(device, s);
    for (size_t r = 0; r < 2; ++r) {
      const SampleResult& result = out.results[r];
      EXPECT_EQ(result.invalid, 0);
      EXPECT_EQ(out.ids[r], result.id);
      EXPECT_TRUE(std::find(allowed.begin(), allowed.end(), result.id) != allowed.end()) << c.name;
      for (size_t i = 0; i < 5; ++i) {
        const int32_t id = out.top_ids[r * 5 + i];
        const float logprob = out.top_logprobs[r * 5 + i];
        const std::string key = std::to_string(id);
        if (json["raw_logprobs"].empty()) continue;
        ASSERT_TRUE(json["raw_logprobs"].contains(key)) << c.name;
        const auto expected = json["raw_logprobs"][key].get<double>();
        EXPECT_NEAR(logprob, expected, 1e-5 + 1e-5 * std::fabs(expected));
        EXPECT_TRUE(i == 0 || logprob <= out.top_logprobs[r * 5 + i - 1]);
        if (id == result.id) {
          EXPECT_EQ(result.rank, static_cast<int32_t>(i) + 1);
        }
      }
    }
  }
}

// Gumbel-max draws follow the probabilities (chi-square over many positions).
TEST(ReferenceSampleTest, DrawsFollowTheDistribution) {
  TestDevice device(open_reference_device(DType::kF32));
  const std::vector<double> probabilities = {0.4, 0.25, 0.15, 0.1, 0.05, 0.03, 0.02};
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)) + 3);
  constexpr int kDraws = 20000;
  SampleCase c;
  c.logits = rows_of(std::vector<std::vector<float>>(kDraws, logits));
  for (uint32_t i = 0; i < kDraws; ++i) {
    SampleRow row;
    row.seed = 0x1234567890ULL + i % 7;
    row.choice = i % 3;
    row.position = i;
    c.rows.push_back(row);
  }
  const SampleOutput out = run_sample(device, c);
  std::vector<int> counts(probabilities.size());
  for (const int32_t id : out.ids) ++counts[static_cast<size_t>(id)];
  double chi_square = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = kDraws * probabilities[i];
    chi_square += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  EXPECT_LT(chi_square, 22.46);  // 6 degrees of freedom, p = 0.001; the draw is fixed
  const SampleOutput again = run_sample(device, c);
  EXPECT_EQ(again.ids, out.ids);
}

// The contract's formula, written out: any device must draw this id.
TEST(ReferenceSampleTest, NoiseIsAFunctionOfSeedChoiceAndPosition) {
  TestDevice device(open_reference_device(DType::kF32));
  SampleCase c;
  c.logits = rows_of(std::vector<std::vector<float>>(6, std::vector<float>(50, 0.0f)));
  for (uint32_t i = 0; i < 6; ++i) {
    SampleRow row;
    row.seed = i < 3 ? 0xdeadbeefcafef00dULL : 1;
    row.choice = i % 2;
    row.position = 100 * i;
    c.rows.push_back(row);
  }
  const SampleOutput out = run_sample(device, c);
  for (size_t r = 0; r < 6; ++r) {
    const SampleRow& row = c.rows[r];
    int32_t best = -1;
    float best_u = 0;
    for (uint32_t id = 0; id < 50; ++id) {
      const auto words =
          philox4x32({id / 4, row.position, row.choice, 0},
                     {static_cast<uint32_t>(row.seed), static_cast<uint32_t>(row.seed >> 32)});
      const float u = uniform_open(words[id % 4]);  // equal logits: the largest u wins
      if (best < 0 || u > best_u) {
        best = static_cast<int32_t>(id);
        best_u = u;
      }
    }
    EXPECT_EQ(out.ids[r], best);
  }
}

TEST(ReferenceSampleTest, InvalidRowsHurtNoOther) {
  TestDevice device(open_reference_device(DType::kF32));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  SampleCase c;
  c.logits = rows_of({{1, nan, 0},
                      {1, 2, 0},
                      {-kInfinity, -kInfinity, -kInfinity},
                      {1, 2, 0},
                      {1, kInfinity, 0},
                      {nan, 2, 0},
                      {-kInfinity, 2, 0}});
  c.masks = {0u};
  c.max_top_logprobs = 4;
  SampleRow row;
  row.temperature = 0;
  row.top_logprobs = 4;
  c.rows.assign(7, row);
  c.rows[1].mask_row = 0;   // nothing allowed
  c.rows[5].forced_id = 1;  // still NaN
  c.rows[3].temperature = nan;
  const SampleOutput out = run_sample(device, c);
  for (const size_t r : {0, 1, 2, 3, 4, 5}) EXPECT_EQ(out.results[r].invalid, 1) << r;
  for (const size_t r : {0, 1, 2, 3, 4}) EXPECT_EQ(out.ids[r], 0) << r;
  EXPECT_EQ(out.results[6].invalid, 0);
  EXPECT_EQ(out.ids[6], 1);
  EXPECT_NEAR(out.results[6].logprob, -std::log(1 + std::exp(-2.0)), 1e-6);
  EXPECT_EQ(out.top_ids[6 * 4], 1);
  EXPECT_EQ(out.top_ids[6 * 4 + 3], -1);  // more columns than ids
}

TEST(ReferenceSampleTest, GreedyTiesForcedIdsAndRanks) {
  TestDevice device(open_reference_device(DType::kF32));
  SampleCase c;
  c.logits = rows_of({{1, 3, 3, 0}, {1, 3, 3, 0}, {1, 3, 3, 0}, {1, 3, 3, 0}});
  c.max_top_logprobs = 2;
  SampleRow row;
  row.temperature = 0;
  row.top_logprobs = 2;
  c.rows.assign(4, row);
  c.rows[1].forced_id = 0;
  c.rows[2].forced_id = 2;
  c.rows[3].top_logprobs = -1;
  const SampleOutput out = run_sample(device, c);
  EXPECT_EQ(out.ids, std::vector<int32_t>({1, 0, 2, 1}));
  EXPECT_EQ(out.results[0].rank, 1);
  EXPECT_EQ(out.results[1].rank, 3);
  EXPECT_EQ(out.results[2].rank, 1);
  EXPECT_EQ(out.results[3].rank, 0);
  EXPECT_EQ(out.results[3].logprob, 0);
  EXPECT_EQ(out.top_ids, std::vector<int32_t>({1, 2, 1, 2, 1, 2, -1, -1}));
  const double sum = std::exp(1.0) + 2 * std::exp(3.0) + 1;
  EXPECT_NEAR(out.results[1].logprob, 1 - std::log(sum), 1e-6);
}

TEST(ProcessLogitsTest, TinyAndHugeTemperatures) {
  SampleRow row;
  row.temperature = 1e-30f;
  std::vector<float> logits = {5, 1e4f, -1e4f};
  ASSERT_TRUE(process_logits(logits, row, {}));
  EXPECT_EQ(logits[1], 0);
  row.temperature = 1e30f;
  logits = {5, 1e4f, -1e4f};
  ASSERT_TRUE(process_logits(logits, row, {}));
  EXPECT_NEAR(logits[0], -std::log(3.0), 1e-6);
}

TEST(ProcessLogitsTest, TopPKeepsTheLowestIdsOfATie) {
  SampleRow row;
  row.top_p = 0.5f;
  std::vector<float> logits = {0, 0, 0, 0};
  ASSERT_TRUE(process_logits(logits, row, {}));
  EXPECT_NEAR(logits[0], std::log(0.5), 1e-6);
  EXPECT_NEAR(logits[1], std::log(0.5), 1e-6);
  EXPECT_EQ(logits[2], -kInfinity);
  EXPECT_EQ(logits[3], -kInfinity);
}

TEST(ProcessLogitsTest, IdsOutsideTheVocabularyAreIgnored) {
  SampleRow row;
  row.presence_penalty = 1;
  const std::vector<int32_t> ids = {-1, 99};
  const std::vector<float> values = {1, 1};
  const std::vector<HistoryEntry> history = {{-4, 0, 1}, {99, 1, 1}};
  std::vector<float> logits = {0, 0};
  ASSERT_TRUE(process_logits(logits, row, {nullptr, ids, values, history}));
  EXPECT_EQ(logits[0], logits[1]);
}

}  // namespace
}  // namespace tandem::kernels::testing
