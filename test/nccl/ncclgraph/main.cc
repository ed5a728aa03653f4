// Runs NCCL's own topology detection and graph search on a CPU, for the GPUs and NICs of a job
// file, and prints what NCCL decides as JSON. NCCL's sources are compiled beside this file;
// everything here stands for what they ask of CUDA, NVML, the network plugin and the other ranks.
//
// Job file, one item a line:
//   root DIR                                  directory that stands for /sys (DIR/devices,
//   DIR/class/pci_bus, ...) cpu VENDOR FAMILY MODEL                   what CPUID says, e.g.
//   GenuineIntel 6 143 arch NAME                                 arm64: CPUs are declared as such
//   gpu BUSID LABEL SM NVLINKS GDR            in the order of CUDA's device numbers, which are the
//   ranks; NVLINKS to NVSwitch net BUSID LABEL MBPS GDR                  in the order of the
//   network's device numbers p2p 0|1                                   whether NVML allows PCIe
//   peer access (NVLink always does) nodes N                                   of which this is one
#include <dirent.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "bootstrap.h"
#include "channel.h"
#include "comm.h"
#include "core.h"
#include "graph.h"
#include "nccl.h"
#include "net.h"
#include "nvmlwrap.h"
#include "topo.h"
#include "transport.h"
#define V NCCL_VERSION_CODE
#ifdef RCCL
#define LIBRARY "RCCL "
#else
#define LIBRARY ""
#endif
#define SINCE(a, b) (V >= NCCL_VERSION(a, b, 0))

struct Gpu {
  std::string busid, label;
  int sm, nvlinks, gdr;
};
struct Net {
  std::string busid, label, path;
  int mbps, gdr;
};
static std::string root, vendor = "GenuineIntel", arch;
static int family = 6, model = 143, p2p = 1, nodes = 1;
static std::vector<Gpu> gpus;
static std::vector<Net> nets;

// /sys is a directory of the job file: the linker's --wrap sends these here.
static std::string under(const char* p) { return strncmp(p, "/sys/", 5) == 0 ? root + (p + 4) : p; }
extern "C" {
char* __real_realpath(const char*, char*);
FILE* __real_fopen(const char*, const char*);
DIR* __real_opendir(const char*);
char* __wrap_realpath(const char* p, char* out) { return __real_realpath(under(p).c_str(), out); }
FILE* __wrap_fopen(const char* p, const char* m) { return __real_fopen(under(p).c_str(), m); }
DIR* __wrap_opendir(const char* p) { return __real_opendir(under(p).c_str()); }
}
void lab_cpuid(unsigned leaf, unsigned* a, unsigned* b, unsigned* c, unsigned* d) {
  if (leaf == 0) {
    memcpy(b, vendor.data(), 4);
    memcpy(d, vendor.data() + 4, 4);
    memcpy(c, vendor.data() + 8, 4);
  } else if (leaf == 1) {
    unsigned f = family > 15 ? 15 : family, e = family - f;
    *a = (unsigned)(model & 15) << 4 | f << 8 | (unsigned)(model >> 4) << 16 | e << 20;
  }
}

// debug.cc
int ncclDebugLevel = -1;
uint64_t ncclDebugMask = ~0ull;
thread_local int ncclDebugNoWarn = 0;
static int warnings;
void ncclDebugLog(ncclDebugLogLevel level, unsigned long, const char* file, int line,
                  const char* fmt, ...) {
  static bool verbose = getenv("NCCL_DEBUG") != nullptr;
  if (level == NCCL_LOG_WARN && !ncclDebugNoWarn) warnings++;
  if (!verbose) return;
  va_list ap;
  va_start(ap, fmt);
  fprintf(stderr, level == NCCL_LOG_WARN ? "WARN " : "INFO ");
  vfprintf(stderr, fmt, ap);
  fputc('\n', stderr);
  va_end(ap);
}
#if SINCE(2, 30)
void ncclDebugLogInternal(ncclDebugLogLevel level, unsigned long, const char* file, const char*,
                          int line, const char* fmt, ...) {
  if (level == NCCL_LOG_WARN && !ncclDebugNoWarn) warnings++;
  if (!getenv("NCCL_DEBUG")) return;
  va_list ap;
  va_start(ap, fmt);
  fprintf(stderr, level == NCCL_LOG_WARN ? "WARN " : "INFO ");
  vfprintf(stderr, fmt, ap);
  fputc('\n', stderr);
  va_end(ap);
}
extern "C" bool ncclParamIsCacheDisabled(const char*) { return false; }
ncclResult_t ncclRmaGetDevCount(int, int* physical, int* virt) {
  *physical = *virt = 0;
  return ncclSuccess;
}
#endif

#define G(dev) gpus[(intptr_t)(dev)-1]
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) {
  memset(p, 0, sizeof *p);
  p->major = gpus[0].sm / 10;
  p->minor = gpus[0].sm % 10;
  p->multiProcessorCount = gpus[0].sm;
  return cudaSuccess;
}
#ifdef RCCL
// ROCm SMI: NVLINKS is the number of xGMI links to each other GPU.
#include "rocm_smi_wrap.h"
cudaError_t cudaGetDeviceProperties(cudaDeviceProp_t* p, int) {
  memset(p, 0, sizeof *p);
  strcpy(p->gcnArchName, "gfx942");
  p->multiProcessorCount = 304;
  return cudaSuccess;
}
ncclResult_t rocm_smi_init() { return ncclSuccess; }
ncclResult_t rocm_smi_getNumDevice(uint32_t* n) {
  *n = gpus.size();
  return ncclSuccess;
}
ncclResult_t rocm_smi_getDevicePciBusIdString(uint32_t i, char* id, size_t len) {
  snprintf(id, len, "%s", gpus[i].busid.c_str());
  return ncclSuccess;
}
ncclResult_t rocm_smi_getDeviceIndexByPciBusId(const char* id, uint32_t* index) {
  int64_t want, have;
  busIdToInt64(id, &want);
  for (size_t i = 0; i < gpus.size(); i++)
    if (busIdToInt64(gpus[i].busid.c_str(), &have) == ncclSuccess && want == have) {
      *index = i;
      return ncclSuccess;
    }
  return ncclSystemError;
}
ncclResult_t rocm_smi_getLinkInfo(int a, int, RSMI_IO_LINK_TYPE* type, int* hops, int* count) {
  *type = gpus[a].nvlinks ? RSMI_IOLINK_TYPE_XGMI : RSMI_IOLINK_TYPE_PCIEXPRESS;
  *hops = gpus[a].nvlinks ? 1 : 2;
  *count = gpus[a].nvlinks;
  return ncclSuccess;
}
bool mscclEnabled() { return false; }
bool mscclForceEnabled() { return false; }
#else
// NVML
#if SINCE(2, 14)
ncclNvmlDevicePairInfo ncclNvmlDevicePairs[ncclNvmlMaxDevices][ncclNvmlMaxDevices];
int ncclNvmlDeviceCount;
ncclNvmlDeviceInfo ncclNvmlDevices[ncclNvmlMaxDevices];
#endif
ncclResult_t ncclNvmlEnsureInitialized() { return ncclSuccess; }
ncclResult_t ncclNvmlDeviceGetHandleByPciBusId(const char* id, nvmlDevice_t* dev) {
  int64_t want, have;
  busIdToInt64(id, &want);
  for (size_t i = 0; i < gpus.size(); i++)
    if (busIdToInt64(gpus[i].busid.c_str(), &have) == ncclSuccess && want == have) {
      *dev = (nvmlDevice_t)(i + 1);
      return ncclSuccess;
    }
  return ncclSystemError;
}
ncclResult_t ncclNvmlDeviceGetIndex(nvmlDevice_t dev, unsigned* i) {
  *i = (intptr_t)dev - 1;
  return ncclSuccess;
}
ncclResult_t ncclNvmlDeviceGetHandleByIndex(unsigned i, nvmlDevice_t* dev) {
  *dev = (nvmlDevice_t)(intptr_t)(i + 1);
  return ncclSuccess;
}
ncclResult_t ncclNvmlDeviceGetNvLinkState(nvmlDevice_t dev, unsigned l, nvmlEnableState_t* on) {
  *on = (int)l < G(dev).nvlinks ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
  return ncclSuccess;
}
ncclResult_t ncclNvmlDeviceGetNvLinkCapability(nvmlDevice_t dev, unsigned l, nvmlNvLinkCapability_t,
                                               unsigned* can) {
  *can = (int)l < G(dev).nvlinks;
  return ncclSuccess;
}
ncclResult_t ncclNvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t, unsigned, nvmlPciInfo_t* pci) {
  strcpy(pci->busId, "fffffff:ffff:ff");
  return ncclSuccess;
}  // an NVSwitch that the guest does not see
ncclResult_t ncclNvmlDeviceGetCudaComputeCapability(nvmlDevice_t dev, int* major, int* minor) {
  *major = G(dev).sm / 10;
  *minor = G(dev).sm % 10;
  return ncclSuccess;
}
#if !SINCE(2, 28)
ncclResult_t ncclNvmlDeviceGetFieldValues(nvmlDevice_t, int, nvmlFieldValue_t*) {
  return ncclSystemError;
}
#endif
#if SINCE(2, 30)
// From 2.30 on a GPU's link is what NVML says: the device's own, not the port's above it. Here it
// is the device's highest.
static double link(nvmlDevice_t dev, const char* name) {
  double v = 0;
  if (FILE* f = fopen(("/sys/bus/pci/devices/" + G(dev).busid + "/" + name).c_str(), "r")) {
    if (fscanf(f, "%lf", &v) != 1) v = 0;
    fclose(f);
  }
  return v;
}
ncclResult_t ncclNvmlDeviceGetPciInfo(nvmlDevice_t, nvmlPciInfo_t*) { return ncclSystemError; }
ncclResult_t ncclNvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t dev, unsigned* gen) {
  double v = link(dev, "max_link_speed");
  *gen = v >= 64 ? 6 : v >= 32 ? 5 : v >= 16 ? 4 : v >= 8 ? 3 : v >= 5 ? 2 : 1;
  return ncclSuccess;
}
ncclResult_t ncclNvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t dev, unsigned* width) {
  *width = link(dev, "max_link_width");
  return ncclSuccess;
}
#endif
#endif

// The network
static ncclResult_t devices(int* n) {
  *n = nets.size();
  return ncclSuccess;
}
static ncclResult_t properties(int i, ncclNetProperties_t* p) {
  memset(p, 0, sizeof *p);
  p->name = (char*)nets[i].label.c_str();
  p->pciPath = (char*)nets[i].path.c_str();
  p->guid = 0x100 + i;
  p->ptrSupport = NCCL_PTR_HOST | (nets[i].gdr ? NCCL_PTR_CUDA : 0);
  p->speed = nets[i].mbps;
  p->port = 1;
  p->maxComms = 131072;
#if SINCE(2, 23)
  p->vProps.ndevs = 1;
  p->vProps.devs[0] = i;
#endif
  return ncclSuccess;
}
static ncclNet_t net;
#if SINCE(2, 28)
ncclResult_t ncclNetGetDevCount(int, int* physical, int* virt) {
  *physical = nets.size();
  *virt = 0;
  return ncclSuccess;
}
ncclResult_t ncclCollNetGetDevCount(int, int* physical, int* virt) {
  *physical = *virt = 0;
  return ncclSuccess;
}
ncclResult_t ncclGinGetDevCount(int, int* physical, int* virt) {
  *physical = *virt = 0;
  return ncclSuccess;
}
ncclResult_t ncclNetSetVirtDevCount(int, int) { return ncclSuccess; }
ncclResult_t ncclCollNetSetVirtDevCount(int, int) { return ncclSuccess; }
#endif

// Other ranks: each rank's XML is kept as NCCL hands it over, and given back to rank 0.
#if !SINCE(2, 24)
int ncclNetVersion(ncclComm*) { return 9; }
#endif
static std::vector<std::string> parts;
static bool gathering;
ncclResult_t bootstrapIntraNodeAllGather(void*, int*, int rank, int n, void* all, int size) {
  if (gathering) {
    parts[rank].assign((char*)all + (size_t)rank * size, size);
    return ncclRemoteError;
  }
  for (int r = 0; r < n; r++) memcpy((char*)all + (size_t)r * size, parts[r].data(), size);
  return ncclSuccess;
}
static ncclResult_t yes(int* can, ncclComm*, ncclTopoGraph*, ncclPeerInfo*, ncclPeerInfo*) {
  *can = 1;
  return ncclSuccess;
}
static ncclResult_t yesOld(int* can, ncclTopoSystem*, ncclTopoGraph*, ncclPeerInfo*,
                           ncclPeerInfo*) {
  *can = 1;
  return ncclSuccess;
}
static void set(ncclResult_t (**f)(int*, ncclComm*, ncclTopoGraph*, ncclPeerInfo*, ncclPeerInfo*)) {
  *f = yes;
}
static void set(ncclResult_t (**f)(int*, ncclTopoSystem*, ncclTopoGraph*, ncclPeerInfo*,
                                   ncclPeerInfo*)) {
  *f = yesOld;
}
static ncclTransport any = {"any"};
ncclTransport* ncclTransports[NTRANSPORTS + 1] = {&any, &any, &any, &any, &any};
ncclResult_t initChannel(ncclComm*, int) { return ncclSuccess; }
int64_t ncclParamWorkArgsBytes() { return INT64_MAX; }
const char* ncclEnvPluginGetEnv(const char* name) { return getenv(name); }
void ncclInitEnv() {}
void initEnv();
#ifdef RCCL
const char* ncclFuncStr[NCCL_NUM_FUNCTIONS + 2] =
#else
const char* ncclFuncStr[NCCL_NUM_FUNCTIONS] =
#endif
    {"Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce"};
const char* ncclAlgoStr[NCCL_NUM_ALGORITHMS] = {"Tree",         "Ring", "CollNetDirect",
                                                "CollNetChain", "NVLS", "NVLSTree"};
const char* ncclProtoStr[NCCL_NUM_PROTOCOLS] = {"LL", "LL128", "Simple"};

#define CHECK(call)                                       \
  do {                                                    \
    ncclResult_t r_ = (call);                             \
    if (r_ != ncclSuccess) {                              \
      fprintf(stderr, "%s: result %d\n", #call, (int)r_); \
      exit(1);                                            \
    }                                                     \
  } while (0)

static int gdr(ncclTopoSystem* s, int rank, int64_t busid, int64_t netId, int read) {
#if SINCE(2, 24)
  ncclTopoGdrMode mode;
  CHECK(ncclTopoCheckGdr(s, rank, netId, read, &mode));
  return mode;
#else
  int use;
  CHECK(ncclTopoCheckGdr(s, busid, netId, read, &use));
  return use;
#endif
}
static std::string netLabel(ncclTopoSystem* s, int64_t id) {
  for (int n = 0; n < s->nodes[NET].count; n++)
    if (s->nodes[NET].nodes[n].id == id)
#if SINCE(2, 19)
      return nets[s->nodes[NET].nodes[n].net.dev].label;
#else
      return nets[id].label;
#endif
  return "";
}
static ncclComm* communicator() {
  auto c = (ncclComm*)calloc(1, sizeof(ncclComm));
  int local = gpus.size();
  c->rank = 0;
  c->nRanks = local * nodes;
  c->nNodes = nodes;
  c->localRanks = local;
  c->peerInfo = (ncclPeerInfo*)calloc(c->nRanks + 1, sizeof(ncclPeerInfo));
  c->sharedRes = (decltype(c->sharedRes))calloc(1, sizeof *c->sharedRes);
  c->sharedRes->owner = c;
  c->ncclNet = &net;
  c->minCompCap = c->maxCompCap = gpus[0].sm;
#if SINCE(2, 28)
  c->config.nChannelsPerNetPeer = NCCL_CONFIG_UNDEF_INT;
#endif
  for (int r = 0; r < c->nRanks; r++) {
    auto p = c->peerInfo + r;
    int g = r % local;
    p->rank = r;
    p->cudaDev = g;
    p->gdrSupport = gpus[g].gdr;
    p->hostHash = getHostHash() + r / local;
    p->pidHash = r;
    p->cudaCompCap = gpus[g].sm;
#if SINCE(2, 24)
    p->nvmlDev = g;
#endif
#if SINCE(2, 30)
    p->mloPart = -1;
#endif
    p->comm = c;
    busIdToInt64(gpus[g].busid.c_str(), &p->busId);
  }
  return c;
}
static ncclTopoSystem* detect(ncclComm* c) {
  ncclTopoSystem* s = nullptr;
  parts.assign(gpus.size(), "");
  gathering = true;
  for (size_t r = 0; r < gpus.size() && !s; r++) {
    c->rank = r;
    ncclResult_t res = ncclTopoGetSystem(c, &s);  // before 2.22 one rank detects all
    if (res != ncclRemoteError) CHECK(res);
  }
  gathering = false;
  c->rank = 0;
  if (!s) CHECK(ncclTopoGetSystem(c, &s));
  return s;
}
static void graph(FILE* o, ncclTopoSystem* s, const char* name, ncclTopoGraph& g, bool last) {
  int n = s->nodes[GPU].count, on = 0, ends = 0;
  fprintf(o,
          "  \"%s\": {\"nChannels\": %d, \"bwIntra\": %g, \"bwInter\": %g, \"typeIntra\": \"%s\", "
          "\"typeInter\": \"%s\", \"sameChannels\": %d, \"crossNic\": %d, \"channels\": [",
          name, g.nChannels, g.bwIntra, g.bwInter, topoPathTypeStr[g.typeIntra],
          topoPathTypeStr[g.typeInter], g.sameChannels, g.crossNic);
  for (int c = 0; c < g.nChannels; c++) {
    fprintf(o, "%s{", c ? ", " : "");
    if (nodes > 1) {
      int64_t in = g.inter[2 * c], out = g.inter[2 * c + 1];
      int first = g.intra[c * n],
          final = g.pattern == NCCL_TOPO_PATTERN_RING ? g.intra[c * n + n - 1] : g.intra[c * n];
      int64_t a, b;
      busIdToInt64(gpus[first].busid.c_str(), &a);
      busIdToInt64(gpus[final].busid.c_str(), &b);
      int r = gdr(s, first, a, in, 0), w = gdr(s, final, b, out, 1);
      ends += 2;
      on += !!r + !!w;
      fprintf(o,
              "\"in\": \"%s\", \"inGpu\": \"%s\", \"inGdr\": %d, \"out\": \"%s\", \"outGpu\": "
              "\"%s\", \"outGdr\": %d, ",
              netLabel(s, in).c_str(), gpus[first].label.c_str(), r, netLabel(s, out).c_str(),
              gpus[final].label.c_str(), w);
    }
    fprintf(o, "\"gpus\": [");
    for (int i = 0; i < n; i++) fprintf(o, "%s%d", i ? ", " : "", g.intra[c * n + i]);
    fprintf(o, "]}");
  }
  fprintf(o, "], \"ends\": %d, \"endsGdr\": %d}%s\n", ends, on, last ? "" : ",");
}

#if SINCE(2, 28)
// What follows the search: the channels that are built, and the model that chooses algorithm and
// protocol for a size.
static void tune(FILE* o, ncclComm* c, ncclTopoSystem* s, ncclTopoGraph& ring, ncclTopoGraph& tree,
                 ncclTopoGraph& nvls) {
  static ncclTopoGraph chain, direct;
  ncclTopoGraph* graphs[] = {&tree, &ring, &direct, &chain, &nvls, &nvls, &tree};
  int local = gpus.size(), n = c->nRanks;
  CHECK(ncclTopoComputeP2pChannelsPerPeer(c));
  c->rankToNode = (int*)calloc(n, sizeof(int));
  c->rankToLocalRank = (int*)calloc(n, sizeof(int));
  c->nodeRanks = (ncclNodeRanks*)calloc(nodes, sizeof(ncclNodeRanks));
  std::vector<ncclTopoRanks> ranks(n);
  std::vector<ncclTopoRanks*> all(n);
  std::vector<int> first(nodes), patterns(nodes, tree.pattern), rings((size_t)n * MAXCHANNELS);
  c->nChannels = ring.nChannels < tree.nChannels ? ring.nChannels : tree.nChannels;
  for (int r = n - 1; r >= 0; r--) {  // rank 0 last: it stays in comm->channels
    c->rank = r % local;
    memset(&ranks[r], 0, sizeof ranks[r]);
    CHECK(ncclTopoPreset(c, graphs, &ranks[r]));
    auto shift = [&](int* v) {
      for (int i = 0; i < c->nChannels; i++)
        if (v[i] >= 0) v[i] += r / local * local;
    };
    for (int* v : {ranks[r].ringRecv, ranks[r].ringSend, ranks[r].ringPrev, ranks[r].ringNext,
                   ranks[r].treeToParent, ranks[r].treeToChild0, ranks[r].treeToChild1})
      shift(v);
    all[r] = &ranks[r];
    c->rankToNode[r] = r / local;
    c->rankToLocalRank[r] = r % local;
  }
  for (int i = 0; i < nodes; i++) {
    first[i] = ranks[i * local].ringRecv[0];
    c->nodeRanks[i].localRanks = local;
  }
  c->rank = 0;
  c->node = 0;
  c->maxLocalRanks = c->minLocalRanks = local;
  c->maxTreePattern = tree.pattern;
  c->config.minCTAs = 1;
  c->config.maxCTAs = MAXCHANNELS;
  c->config.collnetEnable = 0;
  CHECK(
      ncclTopoPostset(c, first.data(), patterns.data(), all.data(), rings.data(), graphs, nullptr));
  CHECK(ncclTopoCpuType(s, &c->cpuArch, &c->cpuVendor, &model));
  c->nvlsSupport = nvls.nChannels > 0;
  c->nvlsChannels = nvls.nChannels;
  CHECK(ncclTopoInitTunerConstants(c));
  CHECK(ncclTopoTuneModel(c, gpus[0].sm, gpus[0].sm, graphs));
  fprintf(o, ",\n  \"collChannels\": %d, \"p2pChannelsPerPeer\": %d, \"allReduceBw\": {",
          c->collChannels, c->p2pnChannelsPerPeer);
  for (int a = 0, k = 0; a < NCCL_NUM_ALGORITHMS; a++)
    for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
      if (float b = c->bandwidths[ncclFuncAllReduce][a][p])
        fprintf(o, "%s\"%s/%s\": %g", k++ ? ", " : "", ncclAlgoStr[a], ncclProtoStr[p], b);
  fprintf(o, "}, \"choice\": {");
  for (size_t bytes = 1 << 10, k = 0; bytes <= 1u << 30; bytes <<= 5) {
    float best = 0;
    std::string what;
    for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
      for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++) {
        float t;
        CHECK(ncclTopoGetAlgoTime(c, ncclFuncAllReduce, a, p, bytes, 1, &t));
        if (t >= 0 && (what.empty() || t < best))
          best = t, what = std::string(ncclAlgoStr[a]) + "/" + ncclProtoStr[p];
      }
    fprintf(o, "%s\"%zu\": [\"%s\", %g]", k++ ? ", " : "", bytes, what.c_str(), best);
  }
  fprintf(o, "}");
}
#endif

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s JOB\n", argv[0]);
    return 2;
  }
  FILE* f = __real_fopen(argv[1], "r");
  if (!f) {
    perror(argv[1]);
    return 2;
  }
  char line[4096], a[4096], b[4096];
  int x, y, z;
  while (fgets(line, sizeof line, f)) {
    if (sscanf(line, "root %4095s", a) == 1)
      root = a;
    else if (sscanf(line, "cpu %4095s %d %d", a, &x, &y) == 3) {
      vendor = a;
      family = x;
      model = y;
      vendor.resize(12, ' ');
    } else if (sscanf(line, "arch %4095s", a) == 1)
      arch = a;
    else if (sscanf(line, "gpu %4095s %4095s %d %d %d", a, b, &x, &y, &z) == 5)
      gpus.push_back({a, b, x, y, z});
    else if (sscanf(line, "net %4095s %4095s %d %d", a, b, &x, &y) == 4)
      nets.push_back({a, b, "", x, y});
    else if (sscanf(line, "p2p %d", &x) == 1)
      p2p = x;
    else if (sscanf(line, "nodes %d", &x) == 1)
      nodes = x;
  }
  fclose(f);
  for (auto& n : nets) {
    // As NCCL's InfiniBand transport does: the path of function 0 of slot 0, so that ports and VFs
    // of a device are one.
    char* p = realpath(("/sys/bus/pci/devices/" + n.busid).c_str(), nullptr);
    if (!p) {
      fprintf(stderr, "no %s in %s\n", n.busid.c_str(), root.c_str());
      return 1;
    }
    n.path = p;
    free(p);
    size_t e = n.path.size();
    n.path[e - 1] = n.path[e - 3] = n.path[e - 4] = '0';
  }
#ifndef RCCL
  for (size_t i = 0; i < gpus.size(); i++)
    for (size_t j = 0; j < gpus.size(); j++) {
      auto status =
          p2p || (gpus[i].nvlinks && gpus[j].nvlinks) ? NVML_P2P_STATUS_OK : (nvmlGpuP2PStatus_t)1;
      ncclNvmlDevicePairs[i][j].p2pStatusRead = ncclNvmlDevicePairs[i][j].p2pStatusWrite = status;
    }
#endif
  set(&any.canConnect);
  net.name = "IB";
  net.devices = devices;
  net.getProperties = properties;

  ncclComm* c = communicator();
  ncclTopoSystem* s = detect(c);
  c->topo = s;
#ifdef RCCL
  s->nRanks = c->nRanks;
  s->netGdrLevel = -2;  // as RCCL's init.cc does
#endif
  CHECK(ncclTopoComputePaths(s, c));
  CHECK(ncclTopoTrimSystem(s, c));
  CHECK(ncclTopoComputePaths(s, c));
  CHECK(ncclTopoSearchInit(s));
  CHECK(ncclTopoPrint(s));
  static ncclTopoGraph ring, tree, nvls, none;
  ring.id = 0;
  ring.pattern = NCCL_TOPO_PATTERN_RING;
  ring.minChannels = 1;
  ring.maxChannels = MAXCHANNELS / 2;
  CHECK(ncclTopoCompute(s, &ring));
  CHECK(ncclTopoPrintGraph(s, &ring));
  tree.id = 1;
  tree.pattern = NCCL_TOPO_PATTERN_BALANCED_TREE;
  tree.minChannels = tree.maxChannels = ring.nChannels;
  CHECK(ncclTopoCompute(s, &tree));
  CHECK(ncclTopoPrintGraph(s, &tree));
  nvls.id = 3;
  nvls.pattern = NCCL_TOPO_PATTERN_NVLS;
  nvls.minChannels = 1;
  nvls.maxChannels = MAXCHANNELS;
  if (SINCE(2, 19) && gpus[0].sm >= 90 && gpus[0].nvlinks) CHECK(ncclTopoCompute(s, &nvls));

  FILE* o = stdout;
  fprintf(o,
          "{\n \"nccl\": \"" LIBRARY
          "%d.%d.%d\", \"nodes\": %d, \"maxBw\": %g, \"totalBw\": %g,\n \"gpus\": [\n",
          NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH, nodes, s->maxBw, s->totalBw);
  for (int g = 0; g < s->nodes[GPU].count; g++) {
    auto& n = s->nodes[GPU].nodes[g];
    int rank = n.gpu.rank;
    int64_t bus;
    busIdToInt64(gpus[rank].busid.c_str(), &bus);
    fprintf(o, "  {\"gpu\": \"%s\", \"rank\": %d, \"busid\": \"%s\", \"cpuBw\": ",
            gpus[rank].label.c_str(), rank, gpus[rank].busid.c_str());
    float best = 0;
    for (int i = 0; i < s->nodes[CPU].count; i++)
      if (n.paths[CPU][i].bw > best) best = n.paths[CPU][i].bw;
    fprintf(o, "%g, \"gpus\": {", best);
    bool first = true;
    for (int h = 0; h < s->nodes[GPU].count; h++) {
      if (h == g) continue;
      auto& p = n.paths[GPU][h];
      fprintf(o, "%s\"%s\": [\"%s\", %g]", first ? "" : ", ",
              gpus[s->nodes[GPU].nodes[h].gpu.rank].label.c_str(), topoPathTypeStr[p.type], p.bw);
      first = false;
    }
    fprintf(o, "},\n   \"nets\": {");
    for (int h = 0; h < s->nodes[NET].count; h++) {
      auto& p = n.paths[NET][h];
      int64_t id = s->nodes[NET].nodes[h].id;
      // The path of the other direction has no PXN in it: the GPU's own way to the NIC.
      fprintf(o,
              "%s\"%s\": {\"path\": \"%s\", \"bw\": %g, \"own\": \"%s\", \"ownBw\": %g, "
              "\"gdrRead\": %d, \"gdrWrite\": %d}",
              h ? ", " : "", netLabel(s, id).c_str(), topoPathTypeStr[p.type], p.bw,
              topoPathTypeStr[s->nodes[NET].nodes[h].paths[GPU][g].type],
              s->nodes[NET].nodes[h].paths[GPU][g].bw, gdr(s, rank, bus, id, 1),
              gdr(s, rank, bus, id, 0));
    }
    fprintf(o, "},\n   \"net\": [");
    std::set<std::string> seen;
    for (int ch = 0; ch < 64 && s->nodes[NET].count; ch++) {
#if SINCE(2, 20)
      int64_t id;
      CHECK(ncclTopoGetLocalNet(s, rank, ch, &id, nullptr));
#else
      int id;
      CHECK(ncclTopoGetLocalNet(s, rank, ch, &id));
#endif
      std::string l = netLabel(s, id);
      if (!seen.insert(l).second) break;
      fprintf(o, "%s\"%s\"", ch ? ", " : "", l.c_str());
    }
    fprintf(o, "]}%s\n", g + 1 < s->nodes[GPU].count ? "," : "");
  }
  fprintf(o, " ],\n");
  graph(o, s, "ring", ring, false);
  graph(o, s, "tree", tree, false);
  fprintf(o, "  \"nvls\": {\"nChannels\": %d, \"bwIntra\": %g, \"bwInter\": %g}", nvls.nChannels,
          nvls.bwIntra, nvls.bwInter);
#if SINCE(2, 28)
  tune(o, c, s, ring, tree, nvls);
#endif
  fprintf(o, ",\n \"warnings\": %d\n}\n", warnings);
  return 0;
}
