#include "model/kv_pool.h"

#include <utility>

namespace tandem::model {
namespace {

kernels::KvLayer describe(const AttentionSpec& a, tensor::DType cache) {
  const auto element = static_cast<int64_t>(tensor::size_of(cache));
  kernels::KvLayer layer;
  layer.dtype = cache;
  if (a.kind == AttentionKind::kMla) {
    layer.row_bytes = (int64_t{a.mla.latent} + a.mla.rope) * element;
  } else {
    layer.row_bytes = int64_t{a.head_dim} * element;
    layer.kv_heads = a.kv_heads;
    layer.head_dim = a.head_dim;
  }
  return layer;
}

}  // namespace

int64_t kv_block_bytes(const ModelSpec& spec, tensor::DType cache) {
  return spec.kv_bytes_per_token(cache) * kernels::kBlockTokens;
}

Expected<KvPool> KvPool::create(kernels::DeviceRef device,
                                const ModelSpec& spec,
                                int64_t blocks,
                                tensor::DType cache) {
  KvPool pool;
  pool.device_ = device;
  pool.blocks_ = blocks;
  pool.block_bytes_ = kv_block_bytes(spec, cache);
  int64_t bytes = 0;
  if (blocks < 1 || __builtin_mul_overflow(blocks, pool.block_bytes_, &bytes)) {
    return fail(ErrorCode::kInvalidArgument, "{} KV blocks cannot be had", blocks);
  }
  TANDEM_ASSIGN(pool.buffer_,
                tensor::Buffer::allocate(
                    device.device, device.api->memory, {.bytes = static_cast<size_t>(bytes)}));
  int64_t offset = 0;
  for (const LayerSpec& spec_layer : spec.layers) {
    kernels::KvLayer layer = describe(spec_layer.attention, cache);
    layer.base = pool.buffer_.as<std::byte>() + offset;
    layer.block_stride_bytes = pool.block_bytes_;
    offset += kv_layer_bytes_per_token(spec_layer.attention, cache) * kernels::kBlockTokens;
    pool.layers_.push_back(layer);
  }
  return pool;
}

Expected<void> KvPool::copy_blocks(tensor::Stream* stream,
                                   std::span<const BlockCopy> copies) const {
  const auto inside = [this](int32_t index) { return index >= 0 && index < blocks_; };
  for (const BlockCopy& copy : copies) {
    if (!inside(copy.source) || !inside(copy.target) || copy.source == copy.target) {
      return fail(
          ErrorCode::kInvalidArgument, "copy of KV block {} to {}", copy.source, copy.target);
    }
  }
  for (const BlockCopy& copy : copies) {
    TANDEM_TRY(tensor::to_expected(device_.api->memory.copy(device_.device,
                                                            stream,
                                                            block(copy.target),
                                                            block(copy.source),
                                                            static_cast<size_t>(block_bytes_))));
  }
  return {};
}

}  // namespace tandem::model
