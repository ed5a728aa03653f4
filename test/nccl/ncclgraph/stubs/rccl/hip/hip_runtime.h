// What HIP has beside CUDA's names, by CUDA's rule of naming (build, as_cuda).
#pragma once
#include <cuda_fp16.h>
#include <cuda_runtime.h>

typedef CUdeviceptr cudaDeviceptr_t;
typedef int cudaDevice_t;
typedef CUcontext cudaCtx_t;
typedef struct {
  unsigned bits;
} cudaDeviceArch_t;
typedef struct {
  char gcnArchName[256], name[256];
  int gcnArch;
  cudaDeviceArch_t arch;
  int major, minor, multiProcessorCount;
  size_t totalGlobalMem;
} cudaDeviceProp_t;

enum {
  cudaDeviceAttributeDirectManagedMemAccessFromHost = 1,
  cudaDeviceAttributeComputeCapabilityMajor = 75,
  cudaDeviceAttributeComputeCapabilityMinor = 76,
  cudaDeviceMallocDefault = 0,
  cudaDeviceMallocFinegrained = 1,
  cudaDeviceMallocUncached = 3,
  cudaHostMallocMapped = 2,
  warpSize = 64
};

NOT(cudaExtMallocWithFlags)
NOT(cudaHostFree)
cudaError_t cudaGetDeviceProperties(cudaDeviceProp_t*, int);
