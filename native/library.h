// What a library shows to the outside: the two entries of the kernel, and what it was built from.
#pragma once

#pragma GCC visibility push(default)
#include "problem.h"

extern "C" int64_t lieattn_abi();
#pragma GCC visibility pop

#include "attention.h"
#include "glibc.h"

// To be raised with every change of `problem.h` that changes no size.
constexpr int64_t LIEATTN_ABI = 2;

extern "C" int64_t lieattn_abi() {
    return LIEATTN_ABI << 32 | (int64_t)sizeof(LieattnProblem) << 16 |
           (int64_t)sizeof(LieattnGradients);
}
