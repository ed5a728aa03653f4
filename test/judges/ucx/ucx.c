/* ucx LIBUCS VALUE...: asks UCX's own library how near NICs are to GPUs, on machines whose /sys is in a
 * directory, with each value of UCX_DISTANCE_BW.
 *
 * Reads lines of "DIRECTORY GPU... -- NIC...", addresses as 0000:01:00.0. For each it prints per value
 * the directory and the value's position, then for each GPU and NIC "GPU NIC BANDWIDTH LATENCY", in
 * MiB/s and nanoseconds. A child per machine puts the directory in the place of /sys, and one per value
 * loads the library, which reads /sys and the environment at its start. It needs a user namespace or
 * root.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <err.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
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

/* job is what is asked of a machine. */
struct job {
  const char *directory;
  char *devices[2 * MOST]; /* GPUs, then NICs */
  int gpus, count;
};

static void ask(const struct job *job) {
  for (int g = 0; g < job->gpus; g++)
    for (int n = job->gpus; n < job->count; n++) {
      const char *gpu = job->devices[g], *nic = job->devices[n];
      ucs_sys_dev_distance_t d;
      if (distance(device(gpu), device(nic), &d) != UCS_OK)
        errx(1, "%s: distance of %s and %s", job->directory, gpu, nic);
      printf("%s %s %g %g\n", gpu, nic, d.bandwidth / (1 << 20), d.latency * 1e9);
    }
}

static struct job read_job(char *line) {
  struct job job = {.directory = strtok(line, " \n"), .gpus = -1};
  for (char *word; (word = strtok(NULL, " \n"));) {
    if (strcmp(word, "--") == 0) {
      job.gpus = job.count;
      continue;
    }
    if (job.count == 2 * MOST) errx(1, "%s: too many devices", job.directory);
    job.devices[job.count++] = word;
  }
  if (job.gpus < 0) errx(1, "a line without --");
  return job;
}

/* is_child starts a child, and in the parent waits for its success. */
static int is_child(void) {
  int status;
  pid_t child = fork();
  if (child < 0) err(1, "fork");
  if (child > 0 && (waitpid(child, &status, 0) != child || status != 0)) errx(1, "a child failed");
  return child == 0;
}

static void end_child(void) {
  fflush(stdout);
  _exit(0);
}

static void load(const char *library, const char *value) {
  if (setenv("UCX_DISTANCE_BW", value, 1) != 0) err(1, "setenv");
  void *ucs = dlopen(library, RTLD_NOW);
  if (!ucs) errx(1, "%s", dlerror());
  find = symbol(ucs, "ucs_topo_find_device_by_bus_id");
  distance = symbol(ucs, "ucs_topo_get_distance");
}

int main(int count, char **arguments) {
  static char line[1 << 16];
  if (count < 3) errx(2, "usage: ucx LIBUCS VALUE... < MACHINES");
  while (fgets(line, sizeof line, stdin)) {
    struct job job = read_job(line);
    if (!is_child()) continue;
    if (unshare(CLONE_NEWNS) != 0) err(1, "unshare");
    if (mount(job.directory, "/sys", NULL, MS_BIND, NULL) != 0) err(1, "mount %s", job.directory);
    for (int i = 2; i < count; i++) {
      if (!is_child()) continue;
      load(arguments[1], arguments[i]);
      printf("%s %d\n", job.directory, i - 2);
      ask(&job);
      end_child();
    }
    end_child();
  }
  return 0;
}
