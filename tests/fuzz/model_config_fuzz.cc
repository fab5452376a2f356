// config.json and generation_config.json: refused with the file's name, or a spec whose derived
// sizes can be counted. Input: the file.
#include "base/json.h"
#include "fuzz_input.h"
#include "model/config.h"
#include "model/planner.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto json = tandem::parse_json({reinterpret_cast<const char*>(data), size});
  if (!json) return 0;
  const auto generation = tandem::model::parse_generation_config(*json, "fuzz.json");
  if (!generation) TANDEM_CHECK(generation.error().message.find("fuzz.json") != std::string::npos);
  const auto spec = tandem::model::parse_model_config(*json, "fuzz.json");
  if (!spec) {
    TANDEM_CHECK(spec.error().message.find("fuzz.json") != std::string::npos);
    return 0;
  }
  TANDEM_CHECK(!spec->layers.empty() && spec->hidden > 0 && spec->vocabulary > 0);
  TANDEM_CHECK(spec->kv_bytes_per_token(tandem::tensor::DType::kBF16) > 0);
  return 0;
}
