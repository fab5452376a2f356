#pragma once
// Runs any ModelSpec over the operators of its devices: embedding, layers, logits. The residual
// stream is fp32; an operator runs where its weights live.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/operators.h"
#include "model/expert_link.h"
#include "model/loaded_model.h"
#include "model/workspace.h"
#include "weights/owned_stream.h"

namespace tandem::model {

// A Batch whose arrays lie in memory of the main device.
struct DeviceBatch {
  int32_t tokens = 0;  // > 0
  const int32_t* ids = nullptr;
  const int32_t* previous_ids = nullptr;     // may be null
  std::vector<kernels::RaggedBatch> groups;  // by KV group
};

struct DecoderOptions {
  int32_t max_tokens = 0;
  int32_t max_logits_rows = 0;  // of one call of logits()
  int64_t max_positions = 0;    // rows of the rotary table
};

// One thread submits. All arrays are allocated by create(); a step allocates nothing.
class Decoder {
 public:
  // Errors: kUnsupported for a placement that it cannot run (attention, dense MLP, embedding and
  // head must share one device; routed experts may be on another), kOutOfMemory.
  static Expected<std::unique_ptr<Decoder>> create(const LoadedModel& model,
                                                   const DecoderOptions& options);
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  ~Decoder();

  kernels::DeviceRef device() const { return device_; }
  tensor::Stream* stream() const { return stream_.get(); }
  size_t workspace_bytes() const { return workspace_.bytes(); }

  // Submits all layers. caches[l]: layer l's part of the KV pool.
  Expected<void> run(const DeviceBatch& batch, std::span<const kernels::KvLayer> caches);

  // Submits the logits of `count` rows of the batch just run: [count, vocabulary] fp32, the same
  // memory in every call. `rows`: device memory.
  Expected<tensor::RowsView> logits(const int32_t* rows, int32_t count);

  // Where experts live elsewhere: their streams, to be waited for with a step.
  std::span<const std::unique_ptr<ExpertLink>> links() const { return links_; }

  // After a failed submission: waits until every stream is idle and makes the decoder usable again.
  void recover();

 private:
  Decoder(const LoadedModel& model, const DecoderOptions& options);

  Expected<void> prepare_links();
  Expected<void> prepare_rope();
  void reserve_arrays();
  void take_arrays();

  Expected<void> norm(const tensor::RowsView& x, const float* weight, const tensor::RowsView& out);
  Expected<void> linear(const tensor::RowsView& x,
                        const kernels::PackedWeight& weight,
                        const tensor::RowsView& out,
                        kernels::Epilogue epilogue = kernels::Epilogue::kNone,
                        const float* bias = nullptr);
  Expected<void> attention(size_t index,
                           const kernels::RaggedBatch& batch,
                           const kernels::KvLayer& cache);
  Expected<void> mla(size_t index,
                     const kernels::RaggedBatch& batch,
                     const kernels::KvLayer& cache);
  Expected<void> gqa(size_t index,
                     const kernels::RaggedBatch& batch,
                     const kernels::KvLayer& cache);
  Expected<void> dense_mlp(size_t index);
  Expected<void> moe(size_t index);
  Expected<void> routed_experts(size_t index, const MoeSpec& spec, ExpertLink* link);

  const LoadedModel& model_;
  const ModelSpec& spec_;
  DecoderOptions options_;
  kernels::DeviceRef device_;
  kernels::RopeTable rope_;
  Workspace rope_memory_;
  Workspace workspace_;

  // Of the batch at work.
  int32_t tokens_ = 0;
  bool delta_pending_ = false;  // delta_ is still to be added to x_

  tensor::RowsView x_;             // [tokens, hidden] fp32: the residual stream
  tensor::RowsView delta_;         // [tokens, hidden] fp32: what MoE adds
  tensor::RowsView normed_;        // [tokens, hidden] A
  tensor::RowsView normed_f32_;    // [tokens, hidden] fp32, for the router
  tensor::RowsView input_;         // [tokens, widest input linear] fp32
  tensor::RowsView q_rank_;        // [tokens, q_rank] A
  tensor::RowsView q_wide_;        // [tokens, heads * (nope + rope)] fp32
  tensor::RowsView q_;             // [tokens, widest q] A
  tensor::RowsView mixed_;         // [tokens, widest attention output] A
  tensor::RowsView mlp_;           // [tokens, widest intermediate] A
  tensor::RowsView router_;        // [tokens, experts] fp32
  int32_t* expert_ids_ = nullptr;  // [tokens, top_k]
  float* expert_weights_ = nullptr;
  tensor::RowsView last_;         // [logits rows, hidden] fp32
  tensor::RowsView last_normed_;  // [logits rows, hidden] A
  tensor::RowsView logits_;       // [logits rows, vocabulary] fp32

  std::vector<std::unique_ptr<ExpertLink>> links_;
  std::vector<ExpertLink*> link_of_layer_;
  // Last: its destructor waits for work that uses what stands above.
  weights::OwnedStream stream_;
};

}  // namespace tandem::model
