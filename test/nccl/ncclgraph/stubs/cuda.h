// Types and error codes only, so that NCCL's topology code compiles without CUDA. Nothing here
// calls a GPU.
#pragma once
#include <stddef.h>
#include <stdint.h>
#define CUDA_VERSION 11020
typedef enum { CUDA_SUCCESS = 0, CUDA_ERROR_NOT_SUPPORTED = 801 } CUresult;
typedef int CUdevice;
typedef uintptr_t CUdeviceptr;
typedef struct CUctx_st* CUcontext;
typedef struct CUstream_st* CUstream;
typedef struct CUfunc_st* CUfunction;
typedef unsigned long long CUmemGenericAllocationHandle;
typedef int CUdevice_attribute;
typedef int CUmemAllocationHandleType;
typedef struct {
  int location[2];
  int flags;
} CUmemAccessDesc;
typedef struct {
  int type;
  int requestedHandleTypes;
} CUmemAllocationProp;
typedef struct {
  int type;
  void* address;
} CUstreamBatchMemOpParams;

typedef int CUmemLocationType;
typedef struct {
  char bytes[16];
} CUuuid, cudaUUID_t;
extern CUmemAllocationHandleType ncclCuMemHandleType;
#define CUDAAPI
typedef uint64_t cuuint64_t;
