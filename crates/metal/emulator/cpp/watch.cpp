#include "watch.h"

#include <algorithm>
#include <cstring>
#include <vector>

// Where the program's constants are.
extern "C" __attribute__((weak)) char __executable_start, _end;

namespace emulator::watch {
namespace {

// Threads are counted over all threadgroups, so that nothing needs to be cleared between them; 0 is nobody.
// Beyond the threads are the SIMD groups, for several lanes of one, and whoever else is several.
constexpr uint32_t NOBODY = 0, OF_A_GROUP = 2 * MOST_THREADS, SEVERAL_OF = MOST_THREADS + 1, MANY = OF_A_GROUP - 1;

uint32_t group_of(uint32_t thread) { return thread / OF_A_GROUP; }
uint32_t simd_of(uint32_t thread) {
    uint32_t in_group = thread % OF_A_GROUP;
    return in_group == MANY ? MANY : in_group >= SEVERAL_OF ? in_group - SEVERAL_OF : (in_group - 1) / SIMD_WIDTH;
}

// Who used a byte last, and between which barriers.
struct Byte {
    uint32_t writer, written, written_simd, reader, read, read_simd;
};

// Buffers that overlap are one region, of several numbers.
struct Region {
    const char *begin = nullptr, *end = nullptr;
    bool writable = false;
    size_t number = 0;
    std::vector<Byte> bytes;
};

struct Memory {
    Region regions[MOST_BUFFERS];
    size_t count = 0;
    // By the number of a buffer; of none where nothing is bound.
    const Region *of[MOST_BUFFERS];
    Region arena;
    bool races = true;
    size_t arena_used = 0;
    const char *stacks = nullptr, *stacks_end = nullptr;
    size_t last = 0;
    bool atomic = false;
    // Barriers passed, by thread; the ones that order the device's memory, and those of each SIMD group.
    uint32_t barriers[MOST_THREADS], device_barriers[MOST_THREADS], simd_barriers[MOST_THREADS / SIMD_WIDTH];
    uint32_t threadgroup = 0;
    bool on = false;
};

// Of this host thread, from its first dispatch on. A pointer, since it is asked for at every access: an object would be looked after
// each time, whether it has been made.
thread_local Memory *the_memory = nullptr;
Memory &memory() { return *the_memory; }

const char *kind(bool write) { return write ? "writes" : "reads"; }

// Whether another thread's access may meet this one. The lanes of a SIMD group may be ordered by its own barriers.
inline bool meets(uint32_t other, uint32_t when, uint32_t when_simd, uint32_t me, uint32_t now, uint32_t now_simd) {
    if (other == NOBODY || other == me) return false;
    if (group_of(other) != group_of(me)) return true;
    if (when < now) return false;
    return !(simd_of(other) == simd_of(me) && when_simd < now_simd);
}

void check(Region &region, size_t at, size_t size, bool write, bool shared) {
    if (!memory().races) return;
    const unsigned thread = thread_index();
    uint32_t me = memory().threadgroup * OF_A_GROUP + thread + 1;
    uint32_t now = shared ? memory().barriers[thread] : memory().device_barriers[thread];
    uint32_t now_simd = memory().simd_barriers[thread / SIMD_WIDTH];
    for (size_t n = at; n < at + size; n++) {
        Byte &byte = region.bytes[n];
        if (shared && group_of(byte.writer) != memory().threadgroup) byte = {};
        if (shared && !write && byte.writer == NOBODY)
            fail("thread %u reads threadgroup memory that nobody has written (byte %zu)", thread, n);
        if (memory().atomic) {
            byte.writer = byte.writer == NOBODY ? me : byte.writer;
            continue;
        }
        if (meets(byte.writer, byte.written, byte.written_simd, me, now, now_simd))
            fail("thread %u %s byte %zu of %s, which thread %u writes, and no barrier is between them", thread, kind(write), n,
                 shared ? "threadgroup memory" : "a buffer", (byte.writer - 1) % OF_A_GROUP);
        if (write) {
            if (meets(byte.reader, byte.read, byte.read_simd, me, now, now_simd))
                fail("thread %u writes byte %zu of %s, which another thread reads, and no barrier is between them", thread, n,
                     shared ? "threadgroup memory" : "a buffer");
            byte.writer = me, byte.written = now, byte.written_simd = now_simd;
        } else if (meets(byte.reader, byte.read, byte.read_simd, me, now, now_simd)) {
            bool one_group = group_of(byte.reader) == memory().threadgroup && simd_of(byte.reader) == simd_of(me);
            byte.reader = memory().threadgroup * OF_A_GROUP + (one_group ? SEVERAL_OF + simd_of(me) : MANY);
            byte.read = now, byte.read_simd = now_simd;
        } else {
            byte.reader = me, byte.read = now, byte.read_simd = now_simd;
        }
    }
}

bool inside(const char *at, size_t size, const char *begin, const char *end) { return at >= begin && at + size <= end; }

void access(const void *address, size_t size, bool write) {
    const char *at = static_cast<const char *>(address);
    if (!the_memory || !memory().on || inside(at, size, memory().stacks, memory().stacks_end)) return;
    if (inside(at, size, memory().arena.begin, memory().arena.end)) {
        size_t offset = at - memory().arena.begin;
        if (offset + size > memory().arena_used)
            fail("thread %u %s byte %zu of threadgroup memory, and %zu are declared", place().index, kind(write), offset, memory().arena_used);
        return check(memory().arena, offset, size, write, true);
    }
    for (size_t n = 0; n < memory().count; n++) {
        size_t index = memory().last + n < memory().count ? memory().last + n : memory().last + n - memory().count;
        Region &region = memory().regions[index];
        if (!inside(at, size, region.begin, region.end)) continue;
        memory().last = index;
        if (region.writable) return check(region, at - region.begin, size, write, false);
        if (write) fail("thread %u writes buffer %zu, which is only read", place().index, region.number);
        return;
    }
    if (!write && inside(at, size, &__executable_start, &_end)) return;
    // The buffer that is meant is the nearest.
    const Region *nearest = nullptr;
    ptrdiff_t distance = 1 << 20;
    for (size_t n = 0; n < memory().count; n++) {
        const Region &region = memory().regions[n];
        ptrdiff_t away = at < region.begin ? region.begin - at : at - region.end;
        if (away < distance) nearest = &region, distance = away;
    }
    if (nearest)
        fail("thread %u %s %zu bytes at %td of buffer %zu, which has %td", place().index, kind(write), size, at - nearest->begin,
             nearest->number, nearest->end - nearest->begin);
    fail("thread %u %s %zu bytes outside of every buffer", place().index, kind(write), size);
}

} // namespace

void begin_dispatch(const Call &call, const char *stacks, size_t stack_bytes) {
    thread_local Memory mine;
    the_memory = &mine;
    memory().count = 0;
    memory().last = 0;
    memory().races = call.races;
    std::fill(std::begin(memory().of), std::end(memory().of), nullptr);
    for (unsigned n = 0; n < MOST_BUFFERS; n++) {
        const Buffer &buffer = call.buffers[n];
        if (!buffer.bytes) continue;
        Region region;
        region.begin = buffer.bytes, region.end = buffer.bytes + buffer.length;
        region.writable = buffer.writable, region.number = n;
        // What it overlaps with becomes a part of it.
        size_t kept = 0;
        for (size_t other = 0; other < memory().count; other++) {
            Region &old = memory().regions[other];
            if (old.begin < region.end && region.begin < old.end) {
                region.begin = std::min(region.begin, old.begin), region.end = std::max(region.end, old.end);
                region.writable |= old.writable, region.number = std::min(region.number, old.number);
            } else {
                std::swap(memory().regions[kept++], old);
            }
        }
        std::swap(memory().regions[kept++], region);
        memory().count = kept;
    }
    for (size_t n = 0; n < memory().count; n++) {
        Region &region = memory().regions[n];
        region.bytes.assign(memory().races && region.writable ? region.end - region.begin : 0, Byte{});
    }
    for (unsigned n = 0; n < MOST_BUFFERS; n++)
        for (size_t index = 0; index < memory().count; index++) {
            const Region &region = memory().regions[index];
            const char *begin = call.buffers[n].bytes;
            if (begin && begin >= region.begin && begin < region.end) memory().of[n] = &region;
        }
    memory().stacks = stacks;
    memory().stacks_end = stacks + stack_bytes;
    memory().arena.bytes.assign(THREADGROUP_BYTES, Byte{});
    memory().threadgroup = 0;
    memory().atomic = false;
    memory().on = true;
}

void end_dispatch() { memory().on = false; }

void begin_threadgroup(const char *arena, size_t bytes) {
    memory().arena.begin = arena;
    memory().arena.end = arena + bytes;
    memory().arena_used = 0;
    memory().threadgroup++;
    std::fill(std::begin(memory().barriers), std::end(memory().barriers), 0);
    std::fill(std::begin(memory().device_barriers), std::end(memory().device_barriers), 0);
    std::fill(std::begin(memory().simd_barriers), std::end(memory().simd_barriers), 0);
}

void allow_shared(size_t offset, size_t bytes) { memory().arena_used = std::max(memory().arena_used, offset + bytes); }

void barrier(unsigned thread, bool orders_threadgroup, bool orders_device) {
    memory().barriers[thread] += orders_threadgroup;
    memory().device_barriers[thread] += orders_device;
}

void simd_barrier(unsigned simd_group) { memory().simd_barriers[simd_group]++; }

void atomic(bool begins) { memory().atomic = begins; }

} // namespace emulator::watch

size_t emulator_unwritten(unsigned buffer, size_t from, size_t to) {
    const auto *region = emulator::watch::the_memory ? emulator::watch::memory().of[buffer] : nullptr;
    if (!region) return from;
    const auto &bytes = region->bytes;
    while (from < to && from < bytes.size() && bytes[from].writer != emulator::watch::NOBODY) from++;
    return from;
}

// What the compiler calls at every access.
using emulator::watch::access;
static void aligned(void *at, size_t bytes) {
    if (reinterpret_cast<uintptr_t>(at) % bytes != 0 && emulator::watch::the_memory && emulator::watch::memory().on)
        emulator::fail("thread %u uses %zu bytes at an address that is no multiple of them", emulator::place().index, bytes);
}
extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void **, void *) {}
void __tsan_vptr_read(void **) {}
#define WATCHED(bytes)                                                                      \
    void __tsan_read##bytes(void *at) { aligned(at, bytes), access(at, bytes, false); }     \
    void __tsan_write##bytes(void *at) { aligned(at, bytes), access(at, bytes, true); }     \
    void __tsan_unaligned_read##bytes(void *at) { access(at, bytes, false); }               \
    void __tsan_unaligned_write##bytes(void *at) { access(at, bytes, true); }               \
    void __tsan_volatile_read##bytes(void *at) { access(at, bytes, false); }                \
    void __tsan_volatile_write##bytes(void *at) { access(at, bytes, true); }
WATCHED(1)
WATCHED(2)
WATCHED(4)
WATCHED(8)
WATCHED(16)
#undef WATCHED
void __tsan_read_range(void *at, unsigned long bytes) { access(at, bytes, false); }
void __tsan_write_range(void *at, unsigned long bytes) { access(at, bytes, true); }
void *__tsan_memcpy(void *to, const void *from, unsigned long bytes) {
    access(from, bytes, false);
    access(to, bytes, true);
    return std::memcpy(to, from, bytes);
}
void *__tsan_memset(void *to, int value, unsigned long bytes) {
    access(to, bytes, true);
    return std::memset(to, value, bytes);
}
}
