// The k largest of a row, exactly and in order.
#pragma once
#include "sampling/order.h"

// Values that are held while the largest of them are found.
#define MOST_HELD 1024

// Threadgroup memory.
struct Room {
    // MOST_HELD
    threadgroup ulong *held;
    // MOST_CANDIDATES: the result.
    threadgroup ulong *likeliest;
    threadgroup atomic_uint *count;
    // 2 * MOST_SIMDS
    threadgroup uint *shared;
};

// A key and an index as one number: larger keys are larger, and of equal ones those of a lower index. No two are equal.
inline ulong ranked(uint key, uint index) { return ulong(key) << 32 | ulong(~index); }
inline uint ranked_key(ulong at) { return uint(at >> 32); }
inline uint ranked_index(ulong at) { return ~uint(at); }

// Puts the `k` largest of a row in order into `room.likeliest`, k up to MOST_CANDIDATES; returns how many there are. `row.key(i)` is
// the key of an index; those with 0 do not count.
//
// Two passes over the row where its values are spread: the k-th largest of what each thread has as its largest is a bound that k
// values reach, and with four threads for each of the k hardly more. Where too many do, as those of one thread may be large and
// equal ones many, the bound is bisected.
template <class Row> inline uint likeliest(Row row, uint n, uint k, Room room, Threads t) {
    uint most = 0;
    for (uint i = t.index; i < n; i += t.count) most = max(most, row.key(i));
    uint bound = 0;
    for (uint bit = 31, turn = 0; bit < 32; bit--, turn ^= 1) {
        const uint raised = bound | 1u << bit;
        const uint reach = tg_count(most >= raised, room.shared + turn * MOST_SIMDS, t);
        if (reach >= k) bound = raised;
        if (reach == k) break;
    }
    const ulong all = ranked(max(bound, 1u), 0xFFFFFFFFu);
    ulong from = all, low = all, high = ~0ul;
    uint count;
    while (true) {
        if (t.index == 0) atomic_store_explicit(room.count, 0u, memory_order_relaxed);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint i = t.index; i < n; i += t.count) {
            const ulong at = ranked(row.key(i), i);
            if (at < from) continue;
            const uint slot = atomic_fetch_add_explicit(room.count, 1u, memory_order_relaxed);
            if (slot >= MOST_HELD) break;
            room.held[slot] = at;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        count = atomic_load_explicit(room.count, memory_order_relaxed);
        if (count <= MOST_HELD && (count >= k || from == all)) break;
        if (count > MOST_HELD) low = from;
        else high = from;
        from = low + (high - low) / 2;
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    // They came in no order: each counts those before it.
    for (uint i = t.index; i < count; i += t.count) {
        const ulong at = room.held[i];
        uint rank = 0;
        for (uint other = 0; other < count; other++) rank += uint(room.held[other] > at);
        if (rank < k) room.likeliest[rank] = at;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    return min(count, k);
}

// A row of logits, for `likeliest`.
struct Logits {
    device const float *x;
    uint key(uint i) const { return draw_key(x[i]); }
};
