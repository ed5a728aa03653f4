// Runs NCCL's own topology detection and graph search on a CPU, for the GPUs and NICs of a job
// file, and prints what NCCL decides as JSON. Everything here stands for what NCCL's sources ask of
// CUDA, NVML, ROCm SMI, the network plugin and the other ranks.
//
//	ncclgraph JOB
//
// A job file has one item per line; GPUs are in the order of CUDA's device numbers, which are the
// ranks, NICs in that of the network's device numbers:
//
//	root DIRECTORY                 stands for /sys
//	cpu VENDOR FAMILY MODEL        what CPUID says: GenuineIntel 6 143
//	gpu BUSID LABEL SM NVLINKS GDR NVLINKS to NVSwitches; of AMD xGMI links to each other GPU
//	net BUSID LABEL MBPS GDR       GDR is 1 for GPUDirect RDMA
//	p2p 0|1                        whether NVML allows peer access over PCIe
//	nodes N                        machines of which this is one
#include <dirent.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>
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

struct Gpu {
  std::string busid, label;
  int sm, nvlinks, gdr;
};

struct Net {
  std::string busid, label, path;
  int mbps, gdr;
};

static std::string root, vendor = "GenuineIntel";
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
// logLine counts a warning, and prints a line where NCCL_DEBUG is set.
static void logLine(ncclDebugLogLevel level, const char* fmt, va_list ap) {
  static bool verbose = getenv("NCCL_DEBUG") != nullptr;
  if (level == NCCL_LOG_WARN && !ncclDebugNoWarn) warnings++;
  if (!verbose) return;
  fprintf(stderr, level == NCCL_LOG_WARN ? "WARN " : "INFO ");
  vfprintf(stderr, fmt, ap);
  fputc('\n', stderr);
}

void ncclDebugLog(ncclDebugLogLevel level, unsigned long, const char* file, int line,
                  const char* fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  logLine(level, fmt, ap);
  va_end(ap);
}

// gpuAt returns the position of the GPU with a bus id, -1 without one.
static int gpuAt(const char* id) {
  int64_t want, have;
  busIdToInt64(id, &want);
  for (size_t i = 0; i < gpus.size(); i++)
    if (busIdToInt64(gpus[i].busid.c_str(), &have) == ncclSuccess && want == have) return i;
  return -1;
}

#define G(dev) gpus[(intptr_t)(dev)-1]
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) {
  memset(p, 0, sizeof *p);
  p->major = gpus[0].sm / 10;
  p->minor = gpus[0].sm % 10;
  p->multiProcessorCount = gpus[0].sm;
  return cudaSuccess;
}

// NVML
ncclNvmlDevicePairInfo ncclNvmlDevicePairs[ncclNvmlMaxDevices][ncclNvmlMaxDevices];
int ncclNvmlDeviceCount;
ncclNvmlDeviceInfo ncclNvmlDevices[ncclNvmlMaxDevices];

ncclResult_t ncclNvmlEnsureInitialized() { return ncclSuccess; }
ncclResult_t ncclNvmlDeviceGetHandleByPciBusId(const char* id, nvmlDevice_t* dev) {
  int i = gpuAt(id);
  if (i < 0) return ncclSystemError;
  *dev = (nvmlDevice_t)(intptr_t)(i + 1);
  return ncclSuccess;
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
  p->vProps.ndevs = 1;
  p->vProps.devs[0] = i;
  return ncclSuccess;
}

static ncclNet_t net;
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

// Other ranks: each rank's XML is kept as NCCL hands it over, and given back to rank 0.

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
const char* ncclFuncStr[NCCL_NUM_FUNCTIONS] =
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
  ncclTopoGdrMode mode;
  CHECK(ncclTopoCheckGdr(s, rank, netId, read, &mode));
  return mode;
}

static std::string netLabel(ncclTopoSystem* s, int64_t id) {
  for (int n = 0; n < s->nodes[NET].count; n++)
    if (s->nodes[NET].nodes[n].id == id)
      return nets[s->nodes[NET].nodes[n].net.dev].label;
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
  c->config.nChannelsPerNetPeer = NCCL_CONFIG_UNDEF_INT;
  for (int r = 0; r < c->nRanks; r++) {
    auto p = c->peerInfo + r;
    int g = r % local;
    p->rank = r;
    p->cudaDev = g;
    p->gdrSupport = gpus[g].gdr;
    p->hostHash = getHostHash() + r / local;
    p->pidHash = r;
    p->cudaCompCap = gpus[g].sm;
    p->nvmlDev = g;

    p->comm = c;
    busIdToInt64(gpus[g].busid.c_str(), &p->busId);
  }
  return c;
}

static ncclTopoSystem* detect(ncclComm* c) {
  ncclTopoSystem* s = nullptr;
  parts.assign(gpus.size(), "");
  gathering = true;
  for (size_t r = 0; r < gpus.size(); r++) {
    c->rank = r;
    ncclResult_t res = ncclTopoGetSystem(c, &s);
    if (res != ncclRemoteError) CHECK(res);
  }
  gathering = false;
  c->rank = 0;
  if (const char* dump = getenv("NCCL_TOPO_DUMP_FILE")) CHECK(ncclTopoGetSystem(c, nullptr, dump));
  CHECK(ncclTopoGetSystem(c, &s));
  return s;
}

// search runs NCCL's search for a pattern of channels.
static ncclTopoGraph search(ncclTopoSystem* s, int id, int pattern, int fewest, int most) {
  ncclTopoGraph g;
  memset(&g, 0, sizeof g);
  g.id = id;
  g.pattern = pattern;
  g.minChannels = fewest;
  g.maxChannels = most;
  CHECK(ncclTopoCompute(s, &g));
  CHECK(ncclTopoPrintGraph(s, &g));
  return g;
}

// connect builds the channels of all ranks. Those of other machines are like this one's.
static void connect(ncclComm* c, ncclTopoGraph** graphs, int treePattern) {
  int local = gpus.size(), n = c->nRanks;
  std::vector<ncclTopoRanks> ranks(n);
  std::vector<ncclTopoRanks*> all(n);
  std::vector<int> first(nodes), patterns(nodes, treePattern), rings((size_t)n * MAXCHANNELS);

  for (int r = n - 1; r >= 0; r--) {  // rank 0 last: it stays in comm->channels
    c->rank = r % local;
    memset(&ranks[r], 0, sizeof ranks[r]);
    CHECK(ncclTopoPreset(c, graphs, &ranks[r]));
    auto& k = ranks[r];
    for (int* v : {k.ringRecv, k.ringSend, k.ringPrev, k.ringNext, k.treeToParent, k.treeToChild0,
                   k.treeToChild1})
      for (int i = 0; i < c->nChannels; i++)
        if (v[i] >= 0) v[i] += r / local * local;
    all[r] = &ranks[r];
    c->rankToNode[r] = r / local;
    c->rankToLocalRank[r] = r % local;
  }

  for (int i = 0; i < nodes; i++) {
    first[i] = ranks[i * local].ringRecv[0];
    c->nodeRanks[i].localRanks = local;
  }
  c->rank = 0;
  CHECK(
      ncclTopoPostset(c, first.data(), patterns.data(), all.data(), rings.data(), graphs, nullptr));
}

// tune does what follows the search, and prints the channels that are built and the bandwidths by
// which NCCL's model chooses algorithm and protocol.
static void tune(ncclComm* c, ncclTopoSystem* s, ncclTopoGraph& ring, ncclTopoGraph& tree,
                 ncclTopoGraph& nvls) {
  static ncclTopoGraph chain, direct;
  ncclTopoGraph* graphs[] = {&tree, &ring, &direct, &chain, &nvls, &nvls, &tree};
  CHECK(ncclTopoComputeP2pChannelsPerPeer(c));
  c->rankToNode = (int*)calloc(c->nRanks, sizeof(int));
  c->rankToLocalRank = (int*)calloc(c->nRanks, sizeof(int));
  c->nodeRanks = (ncclNodeRanks*)calloc(nodes, sizeof(ncclNodeRanks));
  c->nChannels = ring.nChannels < tree.nChannels ? ring.nChannels : tree.nChannels;
  c->maxLocalRanks = c->minLocalRanks = gpus.size();
  c->maxTreePattern = tree.pattern;
  c->config.minCTAs = 1;
  c->config.maxCTAs = MAXCHANNELS;
  connect(c, graphs, tree.pattern);

  CHECK(ncclTopoCpuType(s, &c->cpuArch, &c->cpuVendor, &model));
  c->nvlsSupport = nvls.nChannels > 0;
  c->nvlsChannels = nvls.nChannels;
  CHECK(ncclTopoInitTunerConstants(c));
  CHECK(ncclTopoTuneModel(c, gpus[0].sm, gpus[0].sm, graphs));
  printf(",\n \"collChannels\": %d, \"p2pChannelsPerPeer\": %d, \"allReduceBw\": {",
         c->collChannels, c->p2pnChannelsPerPeer);
  const char* comma = "";
  for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
    for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
      if (float bw = c->bandwidths[ncclFuncAllReduce][a][p]) {
        printf("%s\"%s/%s\": %g", comma, ncclAlgoStr[a], ncclProtoStr[p], bw);
        comma = ", ";
      }
  printf("}");
}

static void readJob(FILE* f) {
  char line[4096], a[4096], b[4096];
  int x, y, z;
  while (fgets(line, sizeof line, f)) {
    if (sscanf(line, "root %4095s", a) == 1) {
      root = a;
    } else if (sscanf(line, "cpu %4095s %d %d", a, &x, &y) == 3) {
      vendor = a;
      vendor.resize(12, ' ');
      family = x;
      model = y;
    } else if (sscanf(line, "gpu %4095s %4095s %d %d %d", a, b, &x, &y, &z) == 5) {
      gpus.push_back({a, b, x, y, z});
    } else if (sscanf(line, "net %4095s %4095s %d %d", a, b, &x, &y) == 4) {
      nets.push_back({a, b, "", x, y});
    } else if (sscanf(line, "p2p %d", &x) == 1) {
      p2p = x;
    } else if (sscanf(line, "nodes %d", &x) == 1) {
      nodes = x;
    }
  }
}

// findNets finds the paths of NICs as NCCL's InfiniBand transport does: of function 0 of slot 0, so
// that ports and virtual functions of a device are one (transport/net_ib/init.cc,
// ncclIbGetPciPath).
static bool findNets() {
  for (auto& n : nets) {
    char* p = realpath(("/sys/bus/pci/devices/" + n.busid).c_str(), nullptr);
    if (!p) {
      fprintf(stderr, "no %s in %s\n", n.busid.c_str(), root.c_str());
      return false;
    }
    n.path = p;
    free(p);
    size_t end = n.path.size();
    n.path[end - 1] = n.path[end - 3] = n.path[end - 4] = '0';
  }
  return true;
}

// allowPeers says what NVML says of peer access.
static void allowPeers() {
  for (size_t i = 0; i < gpus.size(); i++)
    for (size_t j = 0; j < gpus.size(); j++) {
      bool isAllowed = p2p || (gpus[i].nvlinks && gpus[j].nvlinks);
      auto status = isAllowed ? NVML_P2P_STATUS_OK : (nvmlGpuP2PStatus_t)1;
      ncclNvmlDevicePairs[i][j].p2pStatusRead = status;
      ncclNvmlDevicePairs[i][j].p2pStatusWrite = status;
    }
}

// printNets prints the GPU's way to each NIC. The path of the other direction has no PXN in it: it
// is the GPU's own.
static void printNets(ncclTopoSystem* s, int g, int rank, int64_t bus) {
  for (int n = 0; n < s->nodes[NET].count; n++) {
    auto& net = s->nodes[NET].nodes[n];
    auto& own = net.paths[GPU][g];
    printf("%s\"%s\": {\"own\": \"%s\", \"ownBw\": %g, \"gdrRead\": %d, \"gdrWrite\": %d}",
           n ? ", " : "", netLabel(s, net.id).c_str(), topoPathTypeStr[own.type], own.bw,
           gdr(s, rank, bus, net.id, 1), gdr(s, rank, bus, net.id, 0));
  }
}

// printChoice prints the NICs that the GPU uses, the first channel's first.
static void printChoice(ncclTopoSystem* s, int rank) {
  std::set<std::string> seen;
  for (int channel = 0; channel < 64 && s->nodes[NET].count; channel++) {
    int64_t id;
    CHECK(ncclTopoGetLocalNet(s, rank, channel, &id, nullptr));
    std::string label = netLabel(s, id);
    if (!seen.insert(label).second) break;
    printf("%s\"%s\"", channel ? ", " : "", label.c_str());
  }
}

static void printGPU(ncclTopoSystem* s, int g) {
  auto& node = s->nodes[GPU].nodes[g];
  int rank = node.gpu.rank;
  int64_t bus;
  busIdToInt64(gpus[rank].busid.c_str(), &bus);
  printf("%s\n  {\"gpu\": \"%s\", \"gpus\": {", g ? "," : "", gpus[rank].label.c_str());
  const char* comma = "";
  for (int h = 0; h < s->nodes[GPU].count; h++) {
    if (h == g) continue;
    auto& path = node.paths[GPU][h];
    printf("%s\"%s\": \"%s\"", comma, gpus[s->nodes[GPU].nodes[h].gpu.rank].label.c_str(),
           topoPathTypeStr[path.type]);
    comma = ", ";
  }
  printf("}, \"nets\": {");
  printNets(s, g, rank, bus);
  printf("}, \"net\": [");
  printChoice(s, rank);
  printf("]}");
}

static ncclTopoSystem* topology(ncclComm* c) {
  ncclTopoSystem* s = detect(c);
  c->topo = s;
  CHECK(ncclTopoComputePaths(s, c));
  CHECK(ncclTopoTrimSystem(s, c));
  CHECK(ncclTopoComputePaths(s, c));
  CHECK(ncclTopoSearchInit(s));
  CHECK(ncclTopoPrint(s));
  return s;
}

int main(int argc, char** argv) {
  FILE* f = argc == 2 ? __real_fopen(argv[1], "r") : nullptr;
  if (!f) {
    fprintf(stderr, "usage: %s JOB\n", argv[0]);
    return 2;
  }
  readJob(f);
  fclose(f);
  if (!findNets()) return 1;
  allowPeers();
  set(&any.canConnect);
  net.name = "IB";
  net.devices = devices;
  net.getProperties = properties;

  ncclComm* c = communicator();
  ncclTopoSystem* s = topology(c);
  auto ring = search(s, 0, NCCL_TOPO_PATTERN_RING, 1, MAXCHANNELS / 2);
  auto tree = search(s, 1, NCCL_TOPO_PATTERN_BALANCED_TREE, ring.nChannels, ring.nChannels);
  ncclTopoGraph nvls;
  memset(&nvls, 0, sizeof nvls);
  if (gpus[0].sm >= 90 && gpus[0].nvlinks)
    nvls = search(s, 3, NCCL_TOPO_PATTERN_NVLS, 1, MAXCHANNELS);

  printf("{\"nccl\": \"%d.%d.%d\", \"nodes\": %d, \"gpus\": [", NCCL_MAJOR, NCCL_MINOR,
         NCCL_PATCH, nodes);
  for (int g = 0; g < s->nodes[GPU].count; g++) printGPU(s, g);
  printf(
      "],\n \"ring\": {\"nChannels\": %d, \"bwIntra\": %g, \"bwInter\": %g, "
      "\"typeIntra\": \"%s\", \"typeInter\": \"%s\"}",
      ring.nChannels, ring.bwIntra, ring.bwInter, topoPathTypeStr[ring.typeIntra],
      topoPathTypeStr[ring.typeInter]);
  tune(c, s, ring, tree, nvls);
  printf(", \"warnings\": %d}\n", warnings);
  return 0;
}
