#pragma once
#include <stdint.h>
typedef enum {
  RSMI_IOLINK_TYPE_UNDEFINED,
  RSMI_IOLINK_TYPE_PCIEXPRESS,
  RSMI_IOLINK_TYPE_XGMI
} RSMI_IO_LINK_TYPE;
typedef int rsmi_status_t;
enum { RSMI_STATUS_SUCCESS };
typedef struct {
  uint32_t major, minor, patch;
  const char* build;
} rsmi_version_t;
