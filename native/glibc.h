// Symbols that a newer glibc would tie the library to. `log` got a version of its own in 2.29, which
// differs from the older one in how it sets errno, and would keep the library from running on 2.28,
// the oldest that torch itself runs on. The values are the same.
#pragma once

#include <cmath>  // says which C library this is

#if defined(__GLIBC__) && defined(__x86_64__)
__asm__(".symver log, log@GLIBC_2.2.5");
#endif
