#pragma once
static inline int roctxRangePushA(const char*) { return 0; }
static inline int roctxRangePop() { return 0; }
static inline void roctxMarkA(const char*) {}
#define roctxRangePush roctxRangePushA
#define roctxMark roctxMarkA
