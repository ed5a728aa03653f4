#pragma once
struct __half {
  unsigned short x;
};
typedef __half half;
