#pragma once
#include <hip/hip_runtime.h>
struct hip_bfloat16 {
  unsigned short x;
};
