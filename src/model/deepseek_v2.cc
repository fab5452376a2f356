// DeepSeek V2 and V2-Lite. Facts: DeepSeek-V2 technical report (arXiv:2405.04434) and Hugging Face
// transformers' modeling_deepseek_v2.
#include "model/architectures.h"

namespace tandem::model {

Expected<ModelSpec> read_deepseek_v2(const ConfigReader& reader) {
  TANDEM_TRY(reader.require_string("topk_method", {"greedy", "group_limited_greedy"}));
  TANDEM_TRY(reader.require_string("scoring_func", {"softmax"}));
  // DeepSeek's code and transformers disagree on what it means; published configs say false.
  TANDEM_TRY(reader.require_false("norm_topk_prob"));
  TANDEM_ASSIGN(const std::string method, reader.string_or("topk_method", "greedy"));
  kernels::RouteSpec route;
  route.scoring = kernels::RouterScoring::kSoftmax;
  route.group_score = method == "greedy" ? kernels::GroupScore::kNone : kernels::GroupScore::kMax;
  route.masked_score = 0.0f;
  TANDEM_ASSIGN(ModelSpec spec, read_deepseek_mla(reader, route, /*choice_bias=*/false));
  spec.architecture = "DeepseekV2ForCausalLM";
  spec.model_type = "deepseek_v2";
  return spec;
}

}  // namespace tandem::model
