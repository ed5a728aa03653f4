#pragma once
#include <stdint.h>
typedef int hsa_status_t;
typedef int hsa_system_info_t;
typedef struct {
  uint64_t handle;
} hsa_agent_t;
