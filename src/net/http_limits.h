#pragma once
// What a client may cost, checked before anything is allocated for it. All of it is configuration,
// constant after start.

#include <chrono>
#include <cstddef>

namespace tandem::net {

struct HttpLimits {
  // A request that exceeds one of these is refused with the status beside it.
  size_t max_request_line_bytes = 8 * 1024;      // 414
  size_t max_header_bytes = 64 * 1024;           // 431; names, values and separators
  size_t max_header_count = 256;                 // 431; also for trailers
  size_t max_body_bytes = 32 * 1024 * 1024;      // 413; declared, or counted when chunked
  size_t max_chunks = 65536;                     // 413
  size_t max_chunk_line_bytes = 256;             // 400; size and extensions of one chunk
  size_t max_chunk_extension_bytes = 16 * 1024;  // 400; of all chunks of a request

  // Bodies of all requests that are being read or wait for a worker; 503 beyond.
  size_t max_total_body_bytes = size_t{512} * 1024 * 1024;

  size_t max_connections = 4096;  // further ones are answered 503 and closed
  // Bytes of further requests that are read while an answer is pending; beyond, the kernel waits.
  size_t max_pipelined_bytes = 64 * 1024;
  // Bytes of a streamed answer that wait for the client. A client that lets more pile up is cut.
  size_t max_queued_bytes = 4 * 1024 * 1024;

  std::chrono::milliseconds header_timeout{30'000};  // first byte to end of headers; then 408
  // End of headers to end of body; then 408. Extended by the time that the bytes received so far
  // take at the minimum rate, so that big bodies pass and a byte a second does not.
  std::chrono::milliseconds body_timeout{60'000};
  size_t min_body_bytes_per_s = 4096;
  std::chrono::milliseconds idle_timeout{75'000};   // no request begun: closed without a word
  std::chrono::milliseconds write_timeout{60'000};  // no byte of an answer accepted: cut
  // After a last answer the rest of what the client sends is read and thrown away for that long, so
  // that a reset does not destroy the answer on its way.
  std::chrono::milliseconds linger_timeout{2'000};
  size_t max_linger_bytes = size_t{256} * 1024 * 1024;
};

}  // namespace tandem::net
