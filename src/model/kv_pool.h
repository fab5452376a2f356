#pragma once
// The memory behind the block tables: [block][layer][64 tokens][row] on the attention device, one
// buffer. Which block belongs to whom is kv/'s business.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/device.h"
#include "kernels/operators.h"
#include "model/block_transfer.h"
#include "model/model_spec.h"
#include "tensor/buffer.h"

namespace tandem::model {

// Bytes of one block of the main group: kBlockTokens tokens of all layers.
int64_t kv_block_bytes(const ModelSpec& spec, tensor::DType cache);

class KvPool {
 public:
  // blocks >= 1. kOutOfMemory names the bytes; overflow is kInvalidArgument.
  static Expected<KvPool> create(kernels::DeviceRef device,
                                 const ModelSpec& spec,
                                 int64_t blocks,
                                 tensor::DType cache);

  int64_t blocks() const { return blocks_; }
  int64_t block_bytes() const { return block_bytes_; }
  const std::vector<kernels::KvLayer>& layers() const { return layers_; }
  // Device memory: block_bytes() of all layers, contiguous.
  std::byte* block(int32_t index) const { return buffer_.as<std::byte>() + index * block_bytes_; }

  // Submits copies within the pool, in order. kInvalidArgument for a block outside it or one copied
  // onto itself: nothing was submitted.
  Expected<void> copy_blocks(tensor::Stream* stream, std::span<const BlockCopy> copies) const;

 private:
  kernels::DeviceRef device_;
  tensor::Buffer buffer_;
  int64_t blocks_ = 0;
  int64_t block_bytes_ = 0;
  std::vector<kernels::KvLayer> layers_;
};

}  // namespace tandem::model
