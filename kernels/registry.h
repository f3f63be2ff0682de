// The table of all kernels, generated from the build's list of files. Each file defines one list.
#pragma once

#include <span>
#include <string_view>

#include "kernels/kernel.h"

namespace perigee {

struct KernelList {
  const Kernel* first = nullptr;
  size_t count = 0;
};

template <size_t N>
constexpr KernelList kernel_list(const Kernel (&kernels)[N]) {
  return {kernels, N};
}

std::span<const KernelList> kernel_lists();

}  // namespace perigee

// Names the list of a file that is compiled once per instruction set: PERIGEE_KERNELS(matmul_gemm) is kernels_cpu_matmul_gemm_avx512
// in the AVX-512 build. PERIGEE_ISA is defined by the build as baseline, avx2 or avx512.
#define PERIGEE_CONCAT_(a, b, c) a##b##_##c
#define PERIGEE_CONCAT(a, b, c) PERIGEE_CONCAT_(a, b, c)
#ifdef PERIGEE_ISA
#define PERIGEE_CPU_KERNELS(name) PERIGEE_CONCAT(kernels_cpu_, name, PERIGEE_ISA)
#define PERIGEE_CPU_NAMESPACE PERIGEE_CONCAT(cpu, , PERIGEE_ISA)
#endif
