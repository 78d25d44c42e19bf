#include "library.h"

// The names of the builds that this machine can run, best first. Asked of the build that every
// machine can run.
extern "C" __attribute__((visibility("default"))) const char* lieattn_builds() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"))
        return "avx512 avx2 baseline";
    if (avx2) return "avx2 baseline";
#endif
    return "baseline";
}
