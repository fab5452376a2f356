# Cross compiler for Arm (aarch64) with a sysroot that scripts/arm_sysroot.sh fills; tests run under qemu.
# neoverse-n1 stands in for Kunpeng 920: dot product and fp16, no bf16, i8mm or SVE. Never -mcpu=tsv110 with
# g++ 12: it leaves the dot product out.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

get_filename_component(_root "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
set(TANDEM_ARM_SYSROOT "${_root}/build/arm64-sysroot" CACHE PATH "arm64 libraries and headers")
set(_libraries "${TANDEM_ARM_SYSROOT}/usr/lib/aarch64-linux-gnu")
set(_libraries_of_root "${TANDEM_ARM_SYSROOT}/lib/aarch64-linux-gnu")

# Header-only libraries (Boost, nlohmann-json, CLI11) come from the host: they are the same for every processor.
set(CMAKE_FIND_ROOT_PATH "${TANDEM_ARM_SYSROOT}" /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE BOTH)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE BOTH)
set(ENV{PKG_CONFIG_LIBDIR} "${_libraries}/pkgconfig")
set(ENV{PKG_CONFIG_SYSROOT_DIR} "${TANDEM_ARM_SYSROOT}")

set(_includes "-isystem ${TANDEM_ARM_SYSROOT}/usr/include/aarch64-linux-gnu -isystem ${TANDEM_ARM_SYSROOT}/usr/include")
set(CMAKE_C_FLAGS_INIT "${_includes}")
set(CMAKE_CXX_FLAGS_INIT "${_includes}")
set(CMAKE_EXE_LINKER_FLAGS_INIT "-L${_libraries} -Wl,-rpath,${_libraries}:${_libraries_of_root}")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "${CMAKE_EXE_LINKER_FLAGS_INIT}")

set(TANDEM_ARM_CPU neoverse-n1 CACHE STRING "Processor that qemu stands in for; 'max' has i8mm, bf16 and SVE")
set(CMAKE_CROSSCOMPILING_EMULATOR "qemu-aarch64-static;-cpu;${TANDEM_ARM_CPU};-L;/usr/aarch64-linux-gnu")
