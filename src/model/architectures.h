#pragma once
// One function an architecture family: config.json -> ModelSpec. A new model is a new function here
// and a line in the table of config.cc.

#include "model/config_reader.h"

namespace tandem::model {

Expected<ModelSpec> read_deepseek_v2(const ConfigReader& reader);  // also V2-Lite
Expected<ModelSpec> read_deepseek_v3(const ConfigReader& reader);  // also R1, V3.1
Expected<ModelSpec> read_llama(const ConfigReader& reader);

// MLA sizes, rotary table, dense and expert layers: what V2 and V3 share. The router's rule
// (scoring, groups' score, renormalization) is set in `route` by the caller.
Expected<ModelSpec> read_deepseek_mla(const ConfigReader& reader,
                                      const kernels::RouteSpec& route,
                                      bool choice_bias);

}  // namespace tandem::model
