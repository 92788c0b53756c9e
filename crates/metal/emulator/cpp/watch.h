// Every access of a kernel to memory.
#pragma once

#include "include/emulator.h"

namespace emulator::watch {

void begin_dispatch(const Call &call, const char *stacks, size_t stack_bytes);
void end_dispatch();
void begin_threadgroup(const char *arena, size_t bytes);
// These bytes of the arena may be used.
void allow_shared(size_t offset, size_t bytes);
// This thread has passed a barrier.
void barrier(unsigned thread, bool orders_threadgroup, bool orders_device);
// The lanes of this SIMD group have met.
void simd_barrier(unsigned simd_group);
void atomic(bool begins);

} // namespace emulator::watch
