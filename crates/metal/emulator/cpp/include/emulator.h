// What runs kernels on a machine without a GPU: threads are fibres of one host thread, memory is watched at every access.
//
// Kernels are compiled with the instrumentation of ThreadSanitizer, and its callbacks are ours (watch.cpp): each load and store
// of a kernel is checked against the buffers that the dispatch was given, and against what other threads did since the last
// barrier. See README.md.
#pragma once

#include <cstddef>
#include <cstdint>

namespace emulator {

constexpr unsigned SIMD_WIDTH = 32;
constexpr unsigned MOST_THREADS = 1024;
constexpr size_t THREADGROUP_BYTES = 32 << 10;
constexpr size_t MOST_EXCHANGED = 16;
constexpr unsigned MOST_BUFFERS = 31;
constexpr unsigned MOST_CONSTANTS = 512;

struct Size {
    unsigned x, y, z;
};

struct Buffer {
    char *bytes;
    size_t length;
    bool writable;
};

// What a kernel is called with.
struct Call {
    Buffer buffers[MOST_BUFFERS];
    // By the number of [[function_constant(n)]].
    bool defined[MOST_CONSTANTS];
    uint64_t constants[MOST_CONSTANTS];
    Size threadgroups, threads;
    // Bytes of [[threadgroup(n)]] arguments.
    size_t shared[4];
    // Whether accesses are compared with those of other threads, too.
    bool races;
};

// A thread's place.
struct Place {
    unsigned index;
    Size in_group, group, in_grid;
};

// Where in the sources something waits.
struct Site {
    const char *operation;
    const char *file;
    unsigned line;
};

// What runs now. By value: the emulator's own memory is none of the kernel's.
Place place();
unsigned thread_index();
Size threads_per_threadgroup();
Size threadgroups_per_grid();
void *buffer(unsigned number);
bool is_defined(unsigned function_constant);
uint64_t value_of(unsigned function_constant);

// Waits until all threads of the threadgroup are at this barrier.
void threadgroup_barrier(bool orders_threadgroup, bool orders_device, const Site &site);
// Gives every lane of the SIMD group what all others gave, by lane; returns how many lanes there are.
unsigned exchange(const void *mine, size_t bytes, void *all, bool orders_memory, const Site &site);
// The same bytes for all threads of a threadgroup that ask at this place of the sources.
void *shared(const void *key, size_t bytes, size_t alignment);
// Of a [[threadgroup(n)]] argument.
void *shared_argument(unsigned number);
// Accesses that may meet others.
void begin_atomic();
void end_atomic();
// Ends the dispatch with a sentence.
[[noreturn]] void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

using Run = void (*)();
struct Kernel {
    const char *name;
    Run run;
    const Kernel *next;
};
struct Register {
    Kernel kernel;
    Register(const char *name, Run run);
};

} // namespace emulator

extern "C" {
// Number of kernels, and their names.
unsigned emulator_kernels(const char **names, unsigned most);
// Runs a kernel. 0, or 1 where `error` has a sentence.
int emulator_dispatch(const char *kernel, const emulator::Call *call, char *error, size_t error_bytes);
// The first byte of a buffer, from `from` on, that the last dispatch did not write; `to` where it wrote all before that.
size_t emulator_unwritten(unsigned buffer, size_t from, size_t to);
}
