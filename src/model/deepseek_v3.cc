// DeepSeek V3, R1, V3.1. Facts: DeepSeek-V3 technical report (arXiv:2412.19437) and Hugging Face
// transformers' modeling_deepseek_v3.
#include <limits>

#include "model/architectures.h"

namespace tandem::model {

Expected<ModelSpec> read_deepseek_v3(const ConfigReader& reader) {
  TANDEM_TRY(reader.require_string("topk_method", {"noaux_tc"}));
  TANDEM_TRY(reader.require_string("scoring_func", {"sigmoid"}));
  kernels::RouteSpec route;
  route.scoring = kernels::RouterScoring::kSigmoid;
  route.group_score = kernels::GroupScore::kTopTwoSum;
  route.masked_score = -std::numeric_limits<float>::infinity();
  TANDEM_ASSIGN(route.renormalize, reader.boolean_or("norm_topk_prob", true));
  TANDEM_ASSIGN(ModelSpec spec, read_deepseek_mla(reader, route, /*choice_bias=*/true));
  spec.architecture = "DeepseekV3ForCausalLM";
  spec.model_type = "deepseek_v3";
  TANDEM_ASSIGN(const int64_t drafts, reader.integer_or("num_nextn_predict_layers", 0, 64, 0));
  spec.draft_layers = static_cast<int32_t>(drafts);
  return spec;
}

}  // namespace tandem::model
