#pragma once
// C++20 (shared with .cu)
// Conversions between float32 and the narrow number formats, one value at a time, exact to the bit
// and independent of the processor's rounding mode. Decoding is exact; encoding rounds to nearest
// even. NaN stays NaN. Any thread.

#include <bit>
#include <cstdint>

namespace tandem::quant {

constexpr float bf16_to_float(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

constexpr uint16_t float_to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// float32 -> bfloat16 -> float32.
constexpr float round_to_bf16(float value) { return bf16_to_float(float_to_bf16(value)); }

// IEEE 754 binary16.
constexpr float f16_to_float(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0) {
    return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
  }
  // Denormal: mantissa x 2^-24, exact in float32.
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

// Overflow gives infinity.
constexpr uint16_t float_to_f16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  }
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // >= 65520
  if (magnitude >= 0x38800000u) {  // >= 2^-14: normal; a carry walks into the exponent
    const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
  }
  if (magnitude < 0x33000000u) return sign;  // < 2^-25
  const uint32_t shift =
      126u - (magnitude >> 23);  // mantissa with its hidden bit -> units of 2^-24
  const uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
  const uint32_t half = 1u << (shift - 1);
  const uint32_t kept = mantissa >> shift;
  const uint32_t rest = mantissa & ((1u << shift) - 1);
  return static_cast<uint16_t>(sign | (kept + (rest > half || (rest == half && (kept & 1u)))));
}

// OCP 8-bit floating point, E4M3 without infinities (e4m3fn): bias 7, 0x7f and 0xff are NaN,
// largest 448, smallest 2^-9.
constexpr float f8e4m3_to_float(uint8_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x80u) << 24;
  const uint32_t exponent = (bits >> 3) & 0xfu;
  const uint32_t mantissa = bits & 7u;
  if (exponent == 0xf && mantissa == 7) return std::bit_cast<float>(sign | 0x7fc00000u);
  if (exponent != 0) {
    return std::bit_cast<float>(sign | ((exponent + 120u) << 23) | (mantissa << 20));
  }
  const float magnitude = static_cast<float>(mantissa) * 0x1p-9f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

// Saturates at +-448 (infinity too).
constexpr uint8_t float_to_f8e4m3(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint8_t>((bits >> 24) & 0x80u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint8_t>(sign | 0x7fu);
  if (magnitude >= 0x43e00000u) return static_cast<uint8_t>(sign | 0x7eu);  // >= 448
  if (magnitude >= 0x3c800000u) {                                           // >= 2^-6: normal
    const uint32_t rounded = magnitude + 0x7ffffu + ((magnitude >> 20) & 1u);
    return static_cast<uint8_t>(sign | ((rounded - 0x3c000000u) >> 20));
  }
  if (magnitude < 0x3a800000u) return sign;         // < 2^-10
  const uint32_t shift = 141u - (magnitude >> 23);  // -> units of 2^-9
  const uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
  const uint32_t half = 1u << (shift - 1);
  const uint32_t kept = mantissa >> shift;
  const uint32_t rest = mantissa & ((1u << shift) - 1);
  return static_cast<uint8_t>(sign | (kept + (rest > half || (rest == half && (kept & 1u)))));
}

// OCP E5M2: the upper byte of a binary16.
constexpr float f8e5m2_to_float(uint8_t bits) {
  return f16_to_float(static_cast<uint16_t>(bits << 8));
}

// Overflow gives infinity.
constexpr uint8_t float_to_f8e5m2(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint8_t>((bits >> 24) & 0x80u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint8_t>(sign | 0x7fu);
  if (magnitude >= 0x47700000u) return static_cast<uint8_t>(sign | 0x7cu);  // >= 61440
  if (magnitude >= 0x38800000u) {                                           // >= 2^-14
    const uint32_t rounded = magnitude + 0xfffffu + ((magnitude >> 21) & 1u);
    return static_cast<uint8_t>(sign | ((rounded - 0x38000000u) >> 21));
  }
  if (magnitude < 0x37000000u) return sign;         // < 2^-17
  const uint32_t shift = 134u - (magnitude >> 23);  // -> units of 2^-16
  const uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
  const uint32_t half = 1u << (shift - 1);
  const uint32_t kept = mantissa >> shift;
  const uint32_t rest = mantissa & ((1u << shift) - 1);
  return static_cast<uint8_t>(sign | (kept + (rest > half || (rest == half && (kept & 1u)))));
}

}  // namespace tandem::quant
