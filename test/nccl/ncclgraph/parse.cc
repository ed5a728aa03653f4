// Reads a topology file with the library's own parser, and prints its warnings.
//
//	parse FILE
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "core.h"
#include "nccl.h"
#include "topo.h"
#include "xml.h"

int ncclDebugLevel = -1;
uint64_t ncclDebugMask = ~0ull;
thread_local int ncclDebugNoWarn = 0;

static void warn(ncclDebugLogLevel level, const char* fmt, va_list ap) {
  if (level != NCCL_LOG_WARN || ncclDebugNoWarn) return;
  vfprintf(stderr, fmt, ap);
  fputc('\n', stderr);
}

void ncclDebugLog(ncclDebugLogLevel level, unsigned long, const char*, int, const char* fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  warn(level, fmt, ap);
  va_end(ap);
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 30, 0)
void ncclDebugLogInternal(ncclDebugLogLevel level, unsigned long, const char*, const char*, int,
                          const char* fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  warn(level, fmt, ap);
  va_end(ap);
}
#endif

static ncclXml* allocate() {
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 19, 0)
  ncclXml* xml;
  return xmlAlloc(&xml, NCCL_TOPO_XML_MAX_NODES) == ncclSuccess ? xml : nullptr;
#else
  return (ncclXml*)calloc(1, sizeof(ncclXml));
#endif
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s FILE\n", argv[0]);
    return 2;
  }
  return ncclTopoGetXmlFromFile(argv[1], allocate(), 1) != ncclSuccess;
}
