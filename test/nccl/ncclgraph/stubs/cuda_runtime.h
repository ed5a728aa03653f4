#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cuda.h"
#define CUDART_VERSION 11020
#define __host__
#define __device__
#define __global__
#define __forceinline__ inline
typedef enum {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorNotReady = 600,
  cudaErrorNotSupported = 801,
  cudaErrorPeerAccessAlreadyEnabled = 704
} cudaError_t;
typedef struct CUstream_st* cudaStream_t;
typedef struct CUevent_st* cudaEvent_t;
typedef struct CUgraph_st* cudaGraph_t;
typedef struct CUgraphNode_st* cudaGraphNode_t;
typedef struct CUgraphExec_st* cudaGraphExec_t;
typedef struct CUuserObject_st* cudaUserObject_t;
typedef struct CUmemPoolHandle_st* cudaMemPool_t;
typedef struct {
  char reserved[64];
} cudaIpcMemHandle_t;
typedef void (*cudaHostFn_t)(void*);
struct dim3 {
  unsigned x, y, z;
};
struct int4 {
  int x, y, z, w;
};
struct uint4 {
  unsigned x, y, z, w;
};
struct uint2 {
  unsigned x, y;
};
struct ulong2 {
  unsigned long x, y;
};
struct cudaDeviceProp {
  int major, minor, multiProcessorCount;
  size_t totalGlobalMem;
  char name[256];
};
struct cudaLaunchParams {
  void* func;
  dim3 gridDim, blockDim;
  void** args;
  size_t sharedMem;
  cudaStream_t stream;
};
typedef enum {
  cudaStreamCaptureModeGlobal,
  cudaStreamCaptureModeThreadLocal,
  cudaStreamCaptureModeRelaxed
} cudaStreamCaptureMode;
typedef enum {
  cudaMemcpyHostToHost,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault
} cudaMemcpyKind;
#define cudaStreamNonBlocking 1
#define cudaEventDisableTiming 2
#define cudaHostAllocMapped 2
#define cudaHostRegisterMapped 2
#define cudaHostRegisterPortable 1
#define cudaStreamLegacy ((cudaStream_t)1)
#define cudaStreamPerThread ((cudaStream_t)2)
#define NO(f) \
  static inline cudaError_t f(...) { return cudaErrorNotSupported; }
#define NOT(f)                        \
  template <typename... A>            \
  static inline cudaError_t f(A...) { \
    return cudaErrorNotSupported;     \
  }
static inline const char* cudaGetErrorString(cudaError_t) { return "no CUDA"; }
static inline cudaError_t cudaGetLastError() { return cudaSuccess; }
static inline cudaError_t cudaGetDevice(int* d) {
  *d = 0;
  return cudaSuccess;
}
static inline cudaError_t cudaSetDevice(int) { return cudaSuccess; }
static inline cudaError_t cudaDriverGetVersion(int* v) {
  *v = 12080;
  return cudaSuccess;
}
static inline cudaError_t cudaGetDeviceCount(int* n) {
  *n = 0;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp*, int);
NOT(cudaThreadExchangeStreamCaptureMode)
NOT(cudaStreamSynchronize) NOT(cudaStreamDestroy) NOT(cudaStreamCreateWithFlags)
    NOT(cudaMemsetAsync) NOT(cudaMalloc) NOT(cudaFree) NOT(cudaMemcpyAsync) NOT(cudaMemcpy)
        NOT(cudaMemset) NOT(cudaHostAlloc) NOT(cudaFreeHost) NOT(cudaStreamWaitEvent)
            NOT(cudaEventSynchronize) NOT(cudaEventQuery) NOT(cudaEventRecord)
                NOT(cudaEventCreateWithFlags) NOT(cudaEventDestroy) NOT(cudaStreamGetId)
                    NOT(cudaDeviceGetAttribute) NOT(cudaDeviceCanAccessPeer)
                        NOT(cudaIpcGetMemHandle) NOT(cudaIpcOpenMemHandle)
                            NOT(cudaIpcCloseMemHandle) NOT(cudaHostRegister) NOT(cudaHostUnregister)
                                NOT(cudaHostGetDevicePointer) NOT(cudaDeviceGetPCIBusId)
                                    NOT(cudaDeviceGetByPCIBusId)
                                        NOT(cudaDeviceEnablePeerAccess) enum {
                                          cudaDevAttrComputeCapabilityMajor = 75,
                                          cudaDevAttrComputeCapabilityMinor = 76
                                        };
