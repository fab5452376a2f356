#pragma once
// For the benchmarks of the CPU: a device with a stream and random data, and what the machine could
// do.

#include <fmt/core.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "kernels/cpu/common/cpu_device.h"
#include "kernels/device.h"
#include "system/pages.h"
#include "system/thread_team.h"
#include "tensor/buffer.h"

namespace tandem::bench {

using namespace tandem::kernels;
using Steady = std::chrono::steady_clock;

inline double seconds_since(Steady::time_point start) {
  return std::chrono::duration<double>(Steady::now() - start).count();
}

// The best of several runs: the machine may be shared.
template <class F>
double best_seconds(F&& once, double budget_s = 0.6) {
  once();
  double best = 1e9;
  const auto begin = Steady::now();
  do {
    const auto start = Steady::now();
    once();
    best = std::min(best, seconds_since(start));
  } while (seconds_since(begin) < budget_s);
  return best;
}

inline void require(const tensor::Status& status) {
  if (tensor::ok(status)) return;
  fmt::print(stderr, "kernels_bench: {}\n", status.message);
  std::exit(1);
}

class Bench {
 public:
  Bench(int threads, system::InstructionSet set) {
    CpuDeviceConfig config;
    config.threads = threads;
    config.instruction_set = set;
    auto opened = open_cpu_device(config);
    if (!opened) {
      fmt::print(stderr, "kernels_bench: {}\n", opened.error().to_line());
      std::exit(1);
    }
    device_ = std::move(*opened);
    require(memory().create_stream(handle(), &stream_));
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;
  ~Bench() {
    memory().destroy_stream(handle(), stream_);
    buffers_.clear();
  }

  const DeviceApi& api() const { return *device_.ref().api; }
  const tensor::MemoryApi& memory() const { return api().memory; }
  Device* handle() const { return device_.ref().device; }
  tensor::Stream* stream() const { return stream_; }

  template <class T>
  T* allocate(size_t count) {
    auto buffer = tensor::Buffer::allocate(handle(), memory(), {count * sizeof(T)});
    buffers_.push_back(std::move(buffer).value());
    return static_cast<T*>(buffers_.back().data());
  }
  // Small normal numbers in bf16.
  uint16_t* bf16(size_t count) {
    auto* out = allocate<uint16_t>(count);
    for (size_t i = 0; i < count; ++i) {
      out[i] = static_cast<uint16_t>(0x3c00u | (random_() & 0x80ffu));
    }
    return out;
  }
  float* floats(size_t count, float spread) {
    auto* out = allocate<float>(count);
    for (size_t i = 0; i < count; ++i) {
      out[i] = spread * (static_cast<float>(random_() & 0xffff) / 32768.0f - 1.0f);
    }
    return out;
  }
  PackedWeight pack(WeightFormat format, int64_t n, int64_t k) {
    const bool f8 = format == WeightFormat::kF8Block128;
    const auto count = static_cast<size_t>(n * k);
    std::vector<uint8_t> values(count * (f8 ? 1 : 2));
    for (size_t i = 0; i < count; ++i) {
      if (f8) {
        values[i] = static_cast<uint8_t>(random_() & 0xb7u);
      } else {
        values[2 * i] = static_cast<uint8_t>(random_());
        values[2 * i + 1] = static_cast<uint8_t>(0x3cu | (random_() & 0x80u));
      }
    }
    const std::vector<float> scales(static_cast<size_t>((n / 128 + 1) * (k / 128 + 1)), 0.01f);
    const WeightSource source{format, n, k, values.data(), f8 ? scales.data() : nullptr, 0};
    size_t bytes = 0;
    require(api().packed_bytes(handle(), &source, 1, Pairing::kConcatenate, &bytes));
    PackedWeight out;
    require(api().pack(handle(), &source, 1, Pairing::kConcatenate, allocate<char>(bytes), &out));
    return out;
  }

  template <class Args>
  double seconds(tensor::Status (*DeviceApi::*function)(Device*, tensor::Stream*, const Args*),
                 const Args& args) {
    return best_seconds([&] {
      require((api().*function)(handle(), stream_, &args));
      require(memory().synchronize(handle(), stream_));
    });
  }
  // `count` submissions, then one wait: what one costs inside a step.
  template <class Args>
  double seconds_in_a_row(tensor::Status (*DeviceApi::*function)(Device*,
                                                                 tensor::Stream*,
                                                                 const Args*),
                          const Args& args,
                          int count) {
    return best_seconds([&] {
             for (int i = 0; i < count; ++i) require((api().*function)(handle(), stream_, &args));
             require(memory().synchronize(handle(), stream_));
           }) /
           count;
  }

 private:
  OwnedDevice device_;
  tensor::Stream* stream_ = nullptr;
  std::vector<tensor::Buffer> buffers_;
  std::mt19937 random_{1};
};

struct Ceiling {
  double read_gb_s = 0;
  double gflop_s = 0;
};

// How fast something went: by the clock, and by the processor time that this process got
// meanwhile, which says more on a machine that is shared.
struct Rate {
  double a_second = 0;
  double a_cpu_second = 0;
};

class Timer {
 public:
  double seconds() const { return seconds_since(start_); }
  Rate rate(double amount) const { return {amount / seconds(), amount / (cpu_now() - cpu_start_)}; }

 private:
  static double cpu_now() {
    timespec now = {};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  }
  Steady::time_point start_ = Steady::now();
  double cpu_start_ = cpu_now();
};

// What all threads together can read and multiply, measured when asked: a machine that is shared
// gives something else every second.
class Probe {
 public:
  Probe(int threads, system::InstructionSet set, size_t bytes) : kernels_(*cpu::find_kernels(set)) {
    system::ThreadTeamOptions options;
    options.thread_count = threads;
    team_ = std::move(system::ThreadTeam::create(std::move(options))).value();
    // In the pages that weights have.
    pages_ = std::move(system::allocate_pages(bytes, system::PageSize::kTransparentHuge)).value();
    share_ = static_cast<int64_t>(bytes / sizeof(float)) / threads / 1024 * 1024;
    sink_.resize(static_cast<size_t>(threads) * 16);
    auto* data = reinterpret_cast<float*>(pages_.data());
    team_->run([&](int member, int) { std::fill_n(data + member * share_, share_, 1.0f); });
  }

  // Reads everything once, in pieces that the threads take as they can.
  Rate read() {
    constexpr int64_t kPiece = int64_t{1} << 18;
    const auto* data = reinterpret_cast<const float*>(pages_.data());
    const int64_t count = share_ * team_->size();
    const Timer timer;
    team_->parallel_for(count, kPiece, [&](int64_t begin, int64_t end, int member) {
      sink_[static_cast<size_t>(member) * 16] += kernels_.probe_read(data + begin, end - begin);
    });
    return timer.rate(static_cast<double>(count) * sizeof(float));
  }
  Rate multiply_add() {
    constexpr int64_t kPieces = 100;
    constexpr int64_t kRounds = 40'000;  // of a piece
    const Timer timer;
    team_->parallel_for(kPieces, 1, [&](int64_t, int64_t, int member) {
      sink_[static_cast<size_t>(member) * 16] += kernels_.probe_multiply_add(kRounds);
    });
    return timer.rate(static_cast<double>(kPieces * kRounds) * kernels_.probe_flops_a_round);
  }

 private:
  const cpu::MicroKernels& kernels_;
  std::unique_ptr<system::ThreadTeam> team_;
  system::PageAllocation pages_;
  int64_t share_ = 0;
  std::vector<float> sink_;
};

inline Ceiling measure_ceiling(int threads, system::InstructionSet set) {
  Probe probe(threads, set, size_t{384} << 20);
  Ceiling ceiling;
  const auto begin = Steady::now();
  do {
    ceiling.read_gb_s = std::max(ceiling.read_gb_s, probe.read().a_second / 1e9);
    ceiling.gflop_s = std::max(ceiling.gflop_s, probe.multiply_add().a_second / 1e9);
  } while (seconds_since(begin) < 1.2);
  return ceiling;
}

}  // namespace tandem::bench
