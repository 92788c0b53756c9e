// Where keys and values lie in the KV cache.
#pragma once
#include "steps.h"

// The key of a head at a place of a block, in bytes from the start of the group's memory; its value is `value_offset` further.
inline ulong kv_at(constant KVParams &kv, uint block, uint head, uint place) {
    return ulong(block) * kv.block_bytes + kv.layer_offset + head * kv.head_bytes + place % KV_BLOCK * kv.row_bytes;
}

// The block that a row's key and value go to: nothing is written where there is none.
inline uint kv_block_of(device const uint *steps, constant KVParams &kv, device const RowVars &row) {
    return block_table(steps, kv.group, row.sequence)[place_of(row) / KV_BLOCK];
}
