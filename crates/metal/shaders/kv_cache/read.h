// Reading keys and values: the formats of the KV cache. Rows of the step are as those of F32.
#pragma once
#include "kv_cache/place.h"

// A format has the values of a head from its start on, one, two or four at a time. `dim` is how many values the head has, an even
// number. What two and four begin with is a multiple of as many; where `dim` is no multiple of four, the last four may be two and
// zeros. `Staged` is a type for threadgroup memory that loses nothing, up
// to its `largest` number.
template <class T> struct KvFloat {
    using Staged = T;
    static float largest() { return sizeof(T) == 2 ? 65504.0f : 3.4e38f; }
    static float one(device const uchar *head, uint at) { return float(((device const T *)head)[at]); }
    static float2 two(device const uchar *head, uint first) { return float2(*(device const vec<T, 2> *)((device const T *)head + first)); }
    static float4 four(device const uchar *head, uint first, uint dim) {
        // Rows of whole fours begin at multiples of them.
        if (dim % 4 == 0) return float4(*(device const vec<T, 4> *)((device const T *)head + first));
        return float4(two(head, first), first + 2 < dim ? two(head, first + 2) : float2(0.0f));
    }
};
using KvF32 = KvFloat<float>;
using KvF16 = KvFloat<half>;

// Blocks of a scale and 32 bytes, aligned to 2.
struct KvQ8_0 {
    using Staged = float;
    static float largest() { return 3.4e38f; }
    static float one(device const uchar *head, uint at) {
        device const uchar *block = head + at / 32 * 34;
        return float(*(device const half *)block) * float(((device const int8_t *)block)[2 + at % 32]);
    }
    static float2 pair(ushort bytes) { return float2(float(int8_t(bytes & 255)), float(int8_t(bytes >> 8))); }
    static float2 two(device const uchar *head, uint first) {
        device const ushort *block = (device const ushort *)(head + first / 32 * 34);
        return float(*(device const half *)block) * pair(block[1 + first % 32 / 2]);
    }
    static float4 four(device const uchar *head, uint first, uint) {
        device const ushort *block = (device const ushort *)(head + first / 32 * 34);
        device const ushort *bytes = block + 1 + first % 32 / 2;
        return float(*(device const half *)block) * float4(pair(bytes[0]), pair(bytes[1]));
    }
};

// Keys and values of one KV head and one sequence.
struct KvSource {
    device const uchar *keys;
    device const uchar *values;
    // Of the sequence, where they are in the cache; else they are rows of the step, and a block is 64 of them.
    device const uint *table;
    uint block_bytes;
    uint row_bytes;
    bool own_rows;
};

// For the sequence of a row. `keys` is the cache of the group, or keys and values are what the step's rows have.
inline KvSource kv_source(constant KVParams &kv, uint own_rows, uint kv_head, device const uint *steps, uint row,
                          device const uchar *keys, device const uchar *values) {
    device const RowVars &vars = row_vars(steps, row);
    KvSource source;
    source.own_rows = own_rows != 0;
    source.row_bytes = kv.row_bytes;
    if (own_rows != 0) {
        const ulong first = ulong(row - vars.position) * kv.row_bytes + kv_head * kv.head_bytes;
        source.keys = keys + first;
        source.values = values + first;
        source.table = steps;
        source.block_bytes = KV_BLOCK * kv.row_bytes;
    } else {
        source.keys = keys + kv.layer_offset + kv_head * kv.head_bytes;
        source.values = source.keys + kv.value_offset;
        source.table = block_table(steps, kv.group, vars.sequence);
        source.block_bytes = kv.block_bytes;
    }
    return source;
}

// Whether a block is there, and where its first key is from `keys` on.
inline bool kv_find(thread const KvSource &source, uint block, thread ulong &offset) {
    const uint index = source.own_rows ? block : source.table[block];
    offset = ulong(index) * source.block_bytes;
    return source.own_rows || index != NO_BLOCK;
}

// The first and the last position that a row sees and that can be stored.
inline uint2 positions_stored(device const uint *steps, uint row, uint sees, uint window, uint own_rows) {
    const uint2 seen = positions_seen(row_vars(steps, row), sees, window);
    return own_rows != 0 ? seen : uint2(seen.x, min(seen.y, step_header(steps).table_blocks * KV_BLOCK - 1));
}
