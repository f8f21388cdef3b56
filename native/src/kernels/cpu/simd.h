// Loops compiled once per instruction set; the fitting one is picked when the library is loaded. For plain functions
// over pointers: what they call must be inlined into them. Their loops want "#pragma omp simd", as -O2 alone leaves
// most loops scalar. Not under the thread sanitizer: it instruments the code that picks, which runs before it does.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define FF_SIMD __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FF_SIMD
#endif
