#include "include/emulator.h"

#include "fibre.h"
#include "watch.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

namespace emulator {
namespace {

constexpr size_t STACK_BYTES = 64 << 10;

enum class State { Runs, AtBarrier, Exchanges, Ended };

struct Thread {
    Fibre fibre;
    Place place;
    State state;
    Site site;
    bool orders;
    // What it gives to its SIMD group; two, since others may still take the last one.
    alignas(16) char gives[2][MOST_EXCHANGED];
    bool turn;
};

struct Shared {
    size_t offset, bytes;
};

struct Machine {
    const Kernel *kernel = nullptr;
    const Call *call = nullptr;
    Fibre host{};
    std::vector<Thread> threads;
    std::vector<char> stacks;
    Thread *running = nullptr;
    // The arena of the threadgroup's memory, and what is where in it.
    alignas(64) char arena[THREADGROUP_BYTES];
    size_t arena_used = 0;
    std::map<const void *, Shared> shared;
    char error[512];
    bool failed = false;
};

// GPUs take subnormal floats for zero, as long as this is there.
class Flush {
    uint64_t before;
#if defined(__x86_64__)
    static uint64_t get() { return __builtin_ia32_stmxcsr(); }
    static void set(uint64_t control) { __builtin_ia32_ldmxcsr(unsigned(control)); }
    static constexpr uint64_t FLUSHES = 0x8040;
#else
    static uint64_t get() {
        uint64_t control;
        asm volatile("mrs %0, fpcr" : "=r"(control));
        return control;
    }
    static void set(uint64_t control) { asm volatile("msr fpcr, %0" : : "r"(control)); }
    static constexpr uint64_t FLUSHES = 1 << 24;
#endif

  public:
    Flush() : before(get()) { set(before | FLUSHES); }
    ~Flush() { set(before); }
};

// One dispatch at a time on a host thread; made at the first. A pointer alone, since it is asked for at every access.
thread_local Machine *the_machine = nullptr;

Machine &machine() { return *the_machine; }

const Kernel *&kernels() {
    static const Kernel *first = nullptr;
    return first;
}

void to_host() { emulator_switch(&machine().running->fibre.stack_pointer, machine().host.stack_pointer); }

void run_thread() {
    machine().kernel->run();
    machine().running->state = State::Ended;
    to_host();
}

unsigned simd_of(const Thread &thread) { return thread.place.index / SIMD_WIDTH; }

bool same(const Site &a, const Site &b) { return a.line == b.line && !std::strcmp(a.operation, b.operation) && !std::strcmp(a.file, b.file); }

// Threads that cannot meet any more.
void diverged(const Thread &a, const Thread &b) {
    const Site &at = a.state == State::Ended ? b.site : a.site;
    const Thread &there = a.state == State::Ended ? b : a, &elsewhere = a.state == State::Ended ? a : b;
    Machine &m = machine();
    int n = std::snprintf(m.error, sizeof m.error, "%s: %s:%u: thread %u is at %s, and thread %u ", m.kernel->name, at.file, at.line,
                          there.place.index, at.operation, elsewhere.place.index);
    if (elsewhere.state == State::Ended)
        std::snprintf(m.error + n, sizeof m.error - n, "has ended");
    else
        std::snprintf(m.error + n, sizeof m.error - n, "at %s of line %u", elsewhere.site.operation, elsewhere.site.line);
    m.failed = true;
}

// Lets threads go on that have met. False where nobody can.
bool release() {
    Machine &m = machine();
    bool any = false;
    // SIMD groups first: a barrier waits for them.
    for (size_t first = 0; first < m.threads.size(); first += SIMD_WIDTH) {
        size_t end = std::min(first + SIMD_WIDTH, m.threads.size());
        const Thread *waits = nullptr;
        for (size_t n = first; n < end; n++)
            if (m.threads[n].state == State::Exchanges) waits = &m.threads[n];
        if (!waits) continue;
        for (size_t n = first; n < end; n++)
            if (m.threads[n].state != State::Exchanges || !same(m.threads[n].site, waits->site)) {
                diverged(*waits, m.threads[n]);
                return false;
            }
        if (waits->orders) watch::simd_barrier(first / SIMD_WIDTH);
        for (size_t n = first; n < end; n++) m.threads[n].state = State::Runs;
        any = true;
    }
    if (any) return true;
    const Thread *waits = nullptr;
    for (const Thread &thread : m.threads)
        if (thread.state == State::AtBarrier) waits = &thread;
    if (!waits) return false;
    for (const Thread &thread : m.threads)
        if (thread.state != State::AtBarrier || !same(thread.site, waits->site)) {
            diverged(*waits, thread);
            return false;
        }
    for (Thread &thread : m.threads) thread.state = State::Runs;
    return true;
}

void run_threadgroup(Size group) {
    Machine &m = machine();
    const Size &threads = m.call->threads;
    m.arena_used = 0;
    m.shared.clear();
    watch::begin_threadgroup(m.arena, THREADGROUP_BYTES);
    for (unsigned n = 0; n < m.threads.size(); n++) {
        Thread &thread = m.threads[n];
        Size in{n % threads.x, n / threads.x % threads.y, n / threads.x / threads.y};
        Size grid{group.x * threads.x + in.x, group.y * threads.y + in.y, group.z * threads.z + in.z};
        thread.place = {n, in, group, grid};
        thread.state = State::Runs;
        thread.turn = false;
        prepare(thread.fibre, m.stacks.data() + n * STACK_BYTES, STACK_BYTES, run_thread);
    }
    for (;;) {
        bool all_ended = true;
        for (Thread &thread : m.threads) {
            if (thread.state == State::Runs) {
                m.running = &thread;
                emulator_switch(&m.host.stack_pointer, thread.fibre.stack_pointer);
                if (m.failed) return;
            }
            all_ended &= thread.state == State::Ended;
        }
        if (all_ended) return;
        if (!release()) return;
    }
}

} // namespace

Place place() { return machine().running->place; }
unsigned thread_index() { return machine().running->place.index; }
Size threads_per_threadgroup() { return machine().call->threads; }
Size threadgroups_per_grid() { return machine().call->threadgroups; }
void *buffer(unsigned number) { return machine().call->buffers[number].bytes; }
bool is_defined(unsigned constant) { return machine().call->defined[constant]; }
uint64_t value_of(unsigned constant) { return machine().call->constants[constant]; }

void fail(const char *format, ...) {
    Machine &m = machine();
    int n = std::snprintf(m.error, sizeof m.error, "%s: ", m.kernel->name);
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(m.error + n, sizeof m.error - n, format, arguments);
    va_end(arguments);
    m.failed = true;
    to_host();
    std::abort();
}

void threadgroup_barrier(bool orders_threadgroup, bool orders_device, const Site &site) {
    Machine &m = machine();
    Thread &thread = *m.running;
    thread.state = State::AtBarrier;
    thread.site = site;
    to_host();
    watch::barrier(thread.place.index, orders_threadgroup, orders_device);
}

unsigned exchange(const void *mine, size_t bytes, void *all, bool orders, const Site &site) {
    Machine &m = machine();
    Thread &thread = *m.running;
    thread.turn = !thread.turn;
    std::memcpy(thread.gives[thread.turn], mine, bytes);
    thread.state = State::Exchanges;
    thread.site = site;
    thread.orders = orders;
    to_host();
    size_t first = simd_of(thread) * SIMD_WIDTH;
    size_t lanes = std::min<size_t>(SIMD_WIDTH, m.threads.size() - first);
    const auto copy = [&](size_t size) {
        for (size_t lane = 0; lane < lanes; lane++)
            std::memcpy(static_cast<char *>(all) + lane * size, m.threads[first + lane].gives[thread.turn], size);
    };
    // Sizes that the compiler knows, so that it calls nothing for them.
    switch (bytes) {
    case 1: copy(1); break;
    case 4: copy(4); break;
    case 8: copy(8); break;
    case 12: copy(12); break;
    case 16: copy(16); break;
    default: copy(bytes);
    }
    return lanes;
}

void *shared(const void *key, size_t bytes, size_t alignment) {
    Machine &m = machine();
    auto found = m.shared.find(key);
    if (found == m.shared.end()) {
        size_t offset = (m.arena_used + alignment - 1) / alignment * alignment;
        if (offset + bytes > THREADGROUP_BYTES)
            fail("%zu bytes of threadgroup memory, and a threadgroup has %zu", offset + bytes, THREADGROUP_BYTES);
        m.arena_used = offset + bytes;
        found = m.shared.emplace(key, Shared{offset, bytes}).first;
        watch::allow_shared(offset, bytes);
    }
    return m.arena + found->second.offset;
}

void *shared_argument(unsigned number) {
    static const char keys[4] = {};
    return shared(&keys[number], machine().call->shared[number], 16);
}

void begin_atomic() { watch::atomic(true); }
void end_atomic() { watch::atomic(false); }

Register::Register(const char *name, Run run) : kernel{name, run, kernels()} { kernels() = &kernel; }

} // namespace emulator

using namespace emulator;

unsigned emulator_kernels(const char **names, unsigned most) {
    unsigned count = 0;
    for (const Kernel *kernel = kernels(); kernel; kernel = kernel->next, count++)
        if (count < most) names[count] = kernel->name;
    return count;
}

int emulator_dispatch(const char *name, const Call *call, char *error, size_t error_bytes) {
    auto fails = [&](const char *sentence) {
        std::snprintf(error, error_bytes, "%s: %s", name, sentence);
        return 1;
    };
    const Kernel *kernel = kernels();
    while (kernel && std::strcmp(kernel->name, name)) kernel = kernel->next;
    if (!kernel) return fails("there is no such kernel");
    size_t threads = size_t{call->threads.x} * call->threads.y * call->threads.z;
    if (threads == 0 || threads > MOST_THREADS) return fails("a threadgroup has 1 to 1024 threads");
    thread_local const std::unique_ptr<Machine> mine = std::make_unique<Machine>();
    the_machine = mine.get();
    Machine &m = machine();
    m.kernel = kernel;
    m.call = call;
    m.failed = false;
    m.threads.resize(threads);
    if (m.stacks.size() < threads * STACK_BYTES) m.stacks.resize(threads * STACK_BYTES);
    watch::begin_dispatch(*call, m.stacks.data(), m.stacks.size());
    const Flush flush;
    Size group;
    for (group.z = 0; group.z < call->threadgroups.z && !m.failed; group.z++)
        for (group.y = 0; group.y < call->threadgroups.y && !m.failed; group.y++)
            for (group.x = 0; group.x < call->threadgroups.x && !m.failed; group.x++) run_threadgroup(group);
    watch::end_dispatch();
    if (m.failed) std::snprintf(error, error_bytes, "%s", m.error);
    return m.failed;
}
