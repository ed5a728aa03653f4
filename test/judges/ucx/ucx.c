/* ucx LIBUCS: asks UCX's own library how near NICs are to GPUs, on machines whose /sys is in a directory.
 *
 * Reads lines of "DIRECTORY GPU... -- NIC...", addresses as 0000:01:00.0. For each it prints the
 * directory, then for each GPU and NIC "GPU NIC BANDWIDTH LATENCY", in MiB/s and nanoseconds. A child per machine puts the directory in the place of /sys before it loads the library, which reads
 * /sys at its start and remembers it. It needs a user namespace or root.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <err.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ucs/sys/topo/base/topo.h>

enum { MOST = UCS_SYS_DEVICE_ID_COUNT };

static __typeof__(ucs_topo_find_device_by_bus_id) *find;
static __typeof__(ucs_topo_get_distance) *distance;

static void *symbol(void *library, const char *name) {
  void *found = dlsym(library, name);
  if (!found) errx(1, "%s", dlerror());
  return found;
}

static ucs_sys_device_t device(const char *address) {
  ucs_sys_bus_id_t id;
  ucs_sys_device_t found;
  if (sscanf(address, "%hx:%hhx:%hhx.%hhx", &id.domain, &id.bus, &id.slot, &id.function) != 4)
    errx(1, "read address %s", address);
  if (find(&id, &found) != UCS_OK) errx(1, "find device %s", address);
  return found;
}

static void ask(const char *directory, char **gpus, int gpu_count, char **nics, int nic_count) {
  puts(directory);
  for (int g = 0; g < gpu_count; g++)
    for (int n = 0; n < nic_count; n++) {
      ucs_sys_dev_distance_t d;
      if (distance(device(gpus[g]), device(nics[n]), &d) != UCS_OK)
        errx(1, "%s: distance of %s and %s", directory, gpus[g], nics[n]);
      printf("%s %s %g %g\n", gpus[g], nics[n], d.bandwidth / (1 << 20), d.latency * 1e9);
    }
}

static void on_machine(const char *library, const char *directory) {
  if (unshare(CLONE_NEWNS) != 0) err(1, "unshare");
  if (mount(directory, "/sys", NULL, MS_BIND, NULL) != 0) err(1, "mount %s", directory);
  void *ucs = dlopen(library, RTLD_NOW);
  if (!ucs) errx(1, "%s", dlerror());
  find = symbol(ucs, "ucs_topo_find_device_by_bus_id");
  distance = symbol(ucs, "ucs_topo_get_distance");
}

/* one_machine reads the words of a line and asks for them. */
static void one_machine(const char *library, char *line) {
  char *words[2 * MOST], *directory = strtok(line, " \n");
  int count = 0, gpus = -1;
  for (char *word; (word = strtok(NULL, " \n"));) {
    if (strcmp(word, "--") == 0) {
      gpus = count;
      continue;
    }
    if (count == 2 * MOST) errx(1, "%s: too many devices", directory);
    words[count++] = word;
  }
  if (gpus < 0) errx(1, "a line without --");
  on_machine(library, directory);
  ask(directory, words, gpus, words + gpus, count - gpus);
}

int main(int count, char **arguments) {
  static char line[1 << 16];
  if (count != 2) errx(2, "usage: ucx LIBUCS < MACHINES");
  while (fgets(line, sizeof line, stdin)) {
    int status;
    pid_t child = fork();
    if (child < 0) err(1, "fork");
    if (child == 0) {
      one_machine(arguments[1], line);
      fflush(stdout);
      _exit(0);
    }
    if (waitpid(child, &status, 0) != child || status != 0) errx(1, "a machine failed");
  }
  return 0;
}
