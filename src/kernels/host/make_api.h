#pragma once
// Builds the DeviceApi of a host device from a class of static functions:
//
//   struct MyOperators {
//     static Status packed_bytes(HostDevice&, const WeightSource*, int32_t, Pairing, size_t*);
//     static Status pack(HostDevice&, const WeightSource*, int32_t, Pairing, void*, PackedWeight*);
//     static Status packed_mla_bytes(HostDevice&, const MlaShape&, DType, size_t*);
//     static Status pack_mla(HostDevice&, const WeightSource&, const MlaShape&, DType, void*,
//                            MlaWeights*);
//     static void embed(RunContext&, const EmbedArgs&);   … one for each operator
//   };
//   constexpr DeviceApi kMyApi = make_host_device_api<MyOperators>();
//
// Arguments are validated (validate.h) before these are called; exceptions are caught here.

#include <exception>
#include <new>

#include "kernels/build_id.h"
#include "kernels/host/host_memory.h"
#include "kernels/host/host_stream.h"
#include "kernels/host/validate.h"

namespace tandem::kernels {

namespace host_api {

inline int32_t row_count(const auto& args) {
  if constexpr (requires { args.batch; }) {
    return args.batch.tokens;
  } else if constexpr (requires { args.tokens; }) {
    return args.tokens;
  } else if constexpr (requires { args.count; }) {
    return args.count;
  } else {
    return static_cast<int32_t>(args.rows);
  }
}

// No rows: fine, and nothing to do.
template <class Args, void (*kRun)(RunContext&, const Args&)>
Status submit_checked(Device* device, Stream* stream, const Args* args) {
  if (device == nullptr || stream == nullptr || args == nullptr) {
    return make_status(ErrorCode::kInvalidArgument, "null device, stream or arguments");
  }
  if (row_count(*args) == 0) return {};
  const Status status = validate(host_device(device), *args);
  if (!tensor::ok(status)) return status;
  submit<Args, kRun>(host_stream(stream), *args);
  return {};
}

// Calls `function`, which returns a Status, and turns what it throws into one.
template <class Function>
Status guarded(const char* what, Function&& function) {
  try {
    return function();
  } catch (const std::bad_alloc&) {
    return make_status(ErrorCode::kOutOfMemory, "{}: out of memory", what);
  } catch (const std::exception& error) {
    return make_status(ErrorCode::kInternal, "{}: {}", what, error.what());
  }
}

inline void destroy(Device* device) {
  if (device != nullptr) delete &host_device(device);
}

inline Status describe(Device* device, DeviceInfo* out) {
  if (device == nullptr || out == nullptr) {
    return make_status(ErrorCode::kInvalidArgument, "describe: null argument");
  }
  *out = host_device(device).info;
  return {};
}

template <class Operators>
Status packed_bytes(
    Device* device, const WeightSource* parts, int32_t count, Pairing pairing, size_t* out) {
  const Status status = validate_parts(parts, count, pairing);
  if (!tensor::ok(status)) return status;
  if (device == nullptr || out == nullptr) {
    return make_status(ErrorCode::kInvalidArgument, "packed_bytes: null argument");
  }
  return guarded("packed_bytes", [&] {
    return Operators::packed_bytes(host_device(device), parts, count, pairing, out);
  });
}

template <class Operators>
Status pack(Device* device,
            const WeightSource* parts,
            int32_t count,
            Pairing pairing,
            void* memory,
            PackedWeight* out) {
  const Status status = validate_parts(parts, count, pairing);
  if (!tensor::ok(status)) return status;
  if (device == nullptr || memory == nullptr || out == nullptr) {
    return make_status(ErrorCode::kInvalidArgument, "pack: null argument");
  }
  return guarded("pack", [&] {
    return Operators::pack(host_device(device), parts, count, pairing, memory, out);
  });
}

template <class Operators>
Status packed_mla_bytes(Device* device, const MlaShape* shape, DType storage, size_t* out) {
  if (device == nullptr || shape == nullptr || out == nullptr) {
    return make_status(ErrorCode::kInvalidArgument, "packed_mla_bytes: null argument");
  }
  const Status status = validate_mla(*shape, storage);
  if (!tensor::ok(status)) return status;
  return guarded("packed_mla_bytes", [&] {
    return Operators::packed_mla_bytes(host_device(device), *shape, storage, out);
  });
}

template <class Operators>
Status pack_mla(Device* device,
                const WeightSource* kv_b,
                const MlaShape* shape,
                DType storage,
                void* memory,
                MlaWeights* out) {
  if (!device || !kv_b || !shape || !memory || !out) {
    return make_status(ErrorCode::kInvalidArgument, "pack_mla: null argument");
  }
  Status status = validate_mla(*shape, storage);
  if (tensor::ok(status)) status = validate_mla_source(*kv_b, *shape);
  if (!tensor::ok(status)) return status;
  return guarded("pack_mla", [&] {
    return Operators::pack_mla(host_device(device), *kv_b, *shape, storage, memory, out);
  });
}

}  // namespace host_api

template <class Operators>
constexpr DeviceApi make_host_device_api() {
  DeviceApi api;
  api.version = kDeviceApiVersion;
  api.build_id = kBuildId;
  api.destroy = &host_api::destroy;
  api.describe = &host_api::describe;
  api.memory = kHostMemoryApi;
  api.packed_bytes = &host_api::packed_bytes<Operators>;
  api.pack = &host_api::pack<Operators>;
  api.packed_mla_bytes = &host_api::packed_mla_bytes<Operators>;
  api.pack_mla = &host_api::pack_mla<Operators>;
  api.embed = &host_api::submit_checked<EmbedArgs, &Operators::embed>;
  api.rms_norm = &host_api::submit_checked<RmsNormArgs, &Operators::rms_norm>;
  api.linear = &host_api::submit_checked<LinearArgs, &Operators::linear>;
  api.rope_append = &host_api::submit_checked<RopeAppendArgs, &Operators::rope_append>;
  api.attend = &host_api::submit_checked<AttendArgs, &Operators::attend>;
  api.mla_rope_append = &host_api::submit_checked<MlaRopeAppendArgs, &Operators::mla_rope_append>;
  api.mla_attend = &host_api::submit_checked<MlaAttendArgs, &Operators::mla_attend>;
  api.route = &host_api::submit_checked<RouteArgs, &Operators::route>;
  api.experts = &host_api::submit_checked<ExpertsArgs, &Operators::experts>;
  api.gather_rows = &host_api::submit_checked<GatherRowsArgs, &Operators::gather_rows>;
  api.sample = &host_api::submit_checked<SampleArgs, &Operators::sample>;
  return api;
}

}  // namespace tandem::kernels
