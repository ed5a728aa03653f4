// NCCL asks the CPU for its vendor and model, which decide the bandwidth between sockets: the lab
// answers as the job file says.
#pragma once
void lab_cpuid(unsigned leaf, unsigned* a, unsigned* b, unsigned* c, unsigned* d);
#define __cpuid(leaf, a, b, c, d) \
  lab_cpuid(leaf, (unsigned*)&(a), (unsigned*)&(b), (unsigned*)&(c), (unsigned*)&(d))
