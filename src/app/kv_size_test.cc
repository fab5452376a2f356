#include "app/kv_size.h"

#include <gtest/gtest.h>

namespace tandem::app {
namespace {

TEST(KvSize, WhatSequencesNeedUpToAQuarterOfMemory) {
  EXPECT_EQ(kv_blocks({.bytes_per_token = 10,
                       .max_model_len = 65,
                       .max_num_seqs = 3,
                       .available_bytes = 1 << 30})
                .value(),
            6);
  EXPECT_EQ(kv_blocks({.bytes_per_token = 10,
                       .max_model_len = 640,
                       .max_num_seqs = 100,
                       .available_bytes = 25600})
                .value(),
            10);
  EXPECT_EQ(
      kv_blocks(
          {.bytes_per_token = 10, .max_model_len = 640, .max_num_seqs = 1, .available_bytes = 0})
          .value(),
      1);
}

TEST(KvSize, WhatWasAskedFor) {
  EXPECT_EQ(
      kv_blocks(
          {.bytes_per_token = 10, .max_model_len = 640, .max_num_seqs = 1, .asked_bytes = 6400})
          .value(),
      10);
  EXPECT_FALSE(kv_blocks(
      {.bytes_per_token = 10, .max_model_len = 640, .max_num_seqs = 1, .asked_bytes = 639}));
}

TEST(KvSize, HostTier) {
  EXPECT_EQ(host_blocks(0, 10, 0).value(), 0);
  EXPECT_EQ(host_blocks(1300, 10, 1300).value(), 2);
  EXPECT_FALSE(host_blocks(639, 10, 1300));
  EXPECT_FALSE(host_blocks(1300, 10, 1299));
}

}  // namespace
}  // namespace tandem::app
