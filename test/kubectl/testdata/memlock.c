/* Preloaded into libvirtd: RLIMIT_MEMLOCK stays as it is, and no call that raises it fails. A container may
 * lack CAP_SYS_RESOURCE, and without vfio-pci no memory is locked. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/types.h>
#include <sys/resource.h>

int prlimit(pid_t pid, enum __rlimit_resource what, const struct rlimit *to, struct rlimit *from) {
  int (*real)(pid_t, int, const struct rlimit *, struct rlimit *) = dlsym(RTLD_NEXT, "prlimit");
  return real(pid, what, what == RLIMIT_MEMLOCK ? 0 : to, from);
}

int setrlimit(enum __rlimit_resource what, const struct rlimit *to) { return prlimit(0, what, to, 0); }

int prlimit64(pid_t pid, enum __rlimit_resource what, const struct rlimit64 *to, struct rlimit64 *from) {
  return prlimit(pid, what, (const struct rlimit *)to, (struct rlimit *)from);
}

int setrlimit64(enum __rlimit_resource what, const struct rlimit64 *to) { return prlimit64(0, what, to, 0); }
