// Written by `cargo run -p akunu-metal` from src/params and the plan's own structs: do not edit.
#pragma once
#define KV_BLOCK 64u
#define NO_BLOCK 4294967295u
#define NO_TOKEN 4294967295u
#define MAXIMA_SLICE 256u
#define MOST_CANDIDATES 256u
#define MOST_LISTED 128u
#define ACTIVATION_NONE 0u
#define ACTIVATION_SILU 1u
#define ACTIVATION_GELU_TANH 2u
#define ACTIVATION_GELU_ERF 3u
#define ROPE_NONE 0u
#define ROPE_INTERLEAVED 1u
#define ROPE_SPLIT_HALF 2u
#define INDEX_TOKEN 0u
#define INDEX_POSITION 1u
#define INDEX_SEGMENT 2u
#define SEES_PAST 0u
#define SEES_ALL 1u
#define DTYPE_F32 0u
#define DTYPE_F16 1u
#define DTYPE_BF16 2u
#define DTYPE_F64 3u
#define DTYPE_I8 4u
#define DTYPE_I16 5u
#define DTYPE_I32 6u
#define DTYPE_I64 7u
#define DTYPE_U8 8u
#define DTYPE_U32 9u
#define DTYPE_BOOL 10u
#define NONE_DRAWN (-1.0f)

struct StepHeader {
    uint rows;
    uint outputs;
    uint emitted_steps;
    uint table_blocks;
    uint table_sequences;
    uint rows_offset;
    uint outputs_offset;
    uint tables_offset;
    uint emitted_offset;
    uint draws_offset;
    uint rules_offset;
    uint texts_offset;
    uint ended;
    uint reserved[3];
};
static_assert(sizeof(StepHeader) == 64, "as the host has it");
static_assert(__builtin_offsetof(StepHeader, rows) == 0, "as the host has it");
static_assert(__builtin_offsetof(StepHeader, outputs) == 4, "as the host has it");
static_assert(__builtin_offsetof(StepHeader, emitted_steps) == 8, "as the host has it");
static_assert(__builtin_offsetof(StepHeader, table_blocks) == 12, "as the host has it");
static_assert(__builtin_offsetof(StepHeader, table_sequences) == 16, "as the host has it");
static_assert(__builtin_offsetof(StepHeader, rows_offset) == 20, "as the host has it");
static_assert(__builtin_offsetof(StepHeader, outputs_offset) == 24, "as the host has it");
static_assert(__builtin_offsetof(StepHeader, tables_offset) == 28, "as the host has it");
static_assert(__builtin_offsetof(StepHeader, emitted_offset) == 32, "as the host has it");
static_assert(__builtin_offsetof(StepHeader, draws_offset) == 36, "as the host has it");
static_assert(__builtin_offsetof(StepHeader, rules_offset) == 40, "as the host has it");
static_assert(__builtin_offsetof(StepHeader, texts_offset) == 44, "as the host has it");
static_assert(__builtin_offsetof(StepHeader, ended) == 48, "as the host has it");
static_assert(__builtin_offsetof(StepHeader, reserved) == 52, "as the host has it");

struct RowVars {
    uint token;
    uint position;
    uint sequence;
    uint length;
    uint segment;
    uint ahead;
    uint hidden[2];
};
static_assert(sizeof(RowVars) == 32, "as the host has it");
static_assert(__builtin_offsetof(RowVars, token) == 0, "as the host has it");
static_assert(__builtin_offsetof(RowVars, position) == 4, "as the host has it");
static_assert(__builtin_offsetof(RowVars, sequence) == 8, "as the host has it");
static_assert(__builtin_offsetof(RowVars, length) == 12, "as the host has it");
static_assert(__builtin_offsetof(RowVars, segment) == 16, "as the host has it");
static_assert(__builtin_offsetof(RowVars, ahead) == 20, "as the host has it");
static_assert(__builtin_offsetof(RowVars, hidden) == 24, "as the host has it");

struct DrawVars {
    float temperature;
    uint top_k;
    float top_p;
    float min_p;
    uint seed[2];
    uint index;
    uint reserved;
};
static_assert(sizeof(DrawVars) == 32, "as the host has it");
static_assert(__builtin_offsetof(DrawVars, temperature) == 0, "as the host has it");
static_assert(__builtin_offsetof(DrawVars, top_k) == 4, "as the host has it");
static_assert(__builtin_offsetof(DrawVars, top_p) == 8, "as the host has it");
static_assert(__builtin_offsetof(DrawVars, min_p) == 12, "as the host has it");
static_assert(__builtin_offsetof(DrawVars, seed) == 16, "as the host has it");
static_assert(__builtin_offsetof(DrawVars, index) == 24, "as the host has it");
static_assert(__builtin_offsetof(DrawVars, reserved) == 28, "as the host has it");

struct Rules {
    uint end;
    uint first_timestamp;
    uint timestamps;
    uint latest_start;
    uint never;
    uint not_first;
    uint tokens[128];
};
static_assert(sizeof(Rules) == 536, "as the host has it");
static_assert(__builtin_offsetof(Rules, end) == 0, "as the host has it");
static_assert(__builtin_offsetof(Rules, first_timestamp) == 4, "as the host has it");
static_assert(__builtin_offsetof(Rules, timestamps) == 8, "as the host has it");
static_assert(__builtin_offsetof(Rules, latest_start) == 12, "as the host has it");
static_assert(__builtin_offsetof(Rules, never) == 16, "as the host has it");
static_assert(__builtin_offsetof(Rules, not_first) == 20, "as the host has it");
static_assert(__builtin_offsetof(Rules, tokens) == 24, "as the host has it");

struct RuleVars {
    uint on;
    uint count;
    uint last;
    uint before;
    uint latest;
    float sum;
    float total;
    uint reserved;
};
static_assert(sizeof(RuleVars) == 32, "as the host has it");
static_assert(__builtin_offsetof(RuleVars, on) == 0, "as the host has it");
static_assert(__builtin_offsetof(RuleVars, count) == 4, "as the host has it");
static_assert(__builtin_offsetof(RuleVars, last) == 8, "as the host has it");
static_assert(__builtin_offsetof(RuleVars, before) == 12, "as the host has it");
static_assert(__builtin_offsetof(RuleVars, latest) == 16, "as the host has it");
static_assert(__builtin_offsetof(RuleVars, sum) == 20, "as the host has it");
static_assert(__builtin_offsetof(RuleVars, total) == 24, "as the host has it");
static_assert(__builtin_offsetof(RuleVars, reserved) == 28, "as the host has it");

struct KVParams {
    uint group;
    uint dtype;
    uint block_bytes;
    uint layer_offset;
    uint value_offset;
    uint head_bytes;
    uint row_bytes;
};
static_assert(sizeof(KVParams) == 28, "as the host has it");
static_assert(__builtin_offsetof(KVParams, group) == 0, "as the host has it");
static_assert(__builtin_offsetof(KVParams, dtype) == 4, "as the host has it");
static_assert(__builtin_offsetof(KVParams, block_bytes) == 8, "as the host has it");
static_assert(__builtin_offsetof(KVParams, layer_offset) == 12, "as the host has it");
static_assert(__builtin_offsetof(KVParams, value_offset) == 16, "as the host has it");
static_assert(__builtin_offsetof(KVParams, head_bytes) == 20, "as the host has it");
static_assert(__builtin_offsetof(KVParams, row_bytes) == 24, "as the host has it");

struct AttentionParams {
    uint rows;
    uint heads_per_kv;
    uint q_stride;
    uint y_stride;
    float scale;
    float soft_cap;
    uint window;
    uint own_rows;
    KVParams kv;
    uint has_sinks;
};
static_assert(sizeof(AttentionParams) == 64, "as the host has it");
static_assert(__builtin_offsetof(AttentionParams, rows) == 0, "as the host has it");
static_assert(__builtin_offsetof(AttentionParams, heads_per_kv) == 4, "as the host has it");
static_assert(__builtin_offsetof(AttentionParams, q_stride) == 8, "as the host has it");
static_assert(__builtin_offsetof(AttentionParams, y_stride) == 12, "as the host has it");
static_assert(__builtin_offsetof(AttentionParams, scale) == 16, "as the host has it");
static_assert(__builtin_offsetof(AttentionParams, soft_cap) == 20, "as the host has it");
static_assert(__builtin_offsetof(AttentionParams, window) == 24, "as the host has it");
static_assert(__builtin_offsetof(AttentionParams, own_rows) == 28, "as the host has it");
static_assert(__builtin_offsetof(AttentionParams, kv) == 32, "as the host has it");
static_assert(__builtin_offsetof(AttentionParams, has_sinks) == 60, "as the host has it");

struct AttentionWeightsParams {
    uint rows;
    uint head;
    uint kv_head;
    uint at;
    uint positions;
    uint q_stride;
    uint y_stride;
    float scale;
    KVParams kv;
    uint window;
};
static_assert(sizeof(AttentionWeightsParams) == 64, "as the host has it");
static_assert(__builtin_offsetof(AttentionWeightsParams, rows) == 0, "as the host has it");
static_assert(__builtin_offsetof(AttentionWeightsParams, head) == 4, "as the host has it");
static_assert(__builtin_offsetof(AttentionWeightsParams, kv_head) == 8, "as the host has it");
static_assert(__builtin_offsetof(AttentionWeightsParams, at) == 12, "as the host has it");
static_assert(__builtin_offsetof(AttentionWeightsParams, positions) == 16, "as the host has it");
static_assert(__builtin_offsetof(AttentionWeightsParams, q_stride) == 20, "as the host has it");
static_assert(__builtin_offsetof(AttentionWeightsParams, y_stride) == 24, "as the host has it");
static_assert(__builtin_offsetof(AttentionWeightsParams, scale) == 28, "as the host has it");
static_assert(__builtin_offsetof(AttentionWeightsParams, kv) == 32, "as the host has it");
static_assert(__builtin_offsetof(AttentionWeightsParams, window) == 60, "as the host has it");

struct SoftmaxParams {
    uint rows;
    uint dim;
    uint x_stride;
    uint y_stride;
    float scale;
    uint unused[3];
};
static_assert(sizeof(SoftmaxParams) == 32, "as the host has it");
static_assert(__builtin_offsetof(SoftmaxParams, rows) == 0, "as the host has it");
static_assert(__builtin_offsetof(SoftmaxParams, dim) == 4, "as the host has it");
static_assert(__builtin_offsetof(SoftmaxParams, x_stride) == 8, "as the host has it");
static_assert(__builtin_offsetof(SoftmaxParams, y_stride) == 12, "as the host has it");
static_assert(__builtin_offsetof(SoftmaxParams, scale) == 16, "as the host has it");

struct ElementwiseParams {
    uint rows;
    uint dim;
    uint x_stride;
    uint u_stride;
    uint y_stride;
    uint activation;
    float scale;
    uint unused[1];
};
static_assert(sizeof(ElementwiseParams) == 32, "as the host has it");
static_assert(__builtin_offsetof(ElementwiseParams, rows) == 0, "as the host has it");
static_assert(__builtin_offsetof(ElementwiseParams, dim) == 4, "as the host has it");
static_assert(__builtin_offsetof(ElementwiseParams, x_stride) == 8, "as the host has it");
static_assert(__builtin_offsetof(ElementwiseParams, u_stride) == 12, "as the host has it");
static_assert(__builtin_offsetof(ElementwiseParams, y_stride) == 16, "as the host has it");
static_assert(__builtin_offsetof(ElementwiseParams, activation) == 20, "as the host has it");
static_assert(__builtin_offsetof(ElementwiseParams, scale) == 24, "as the host has it");

struct TransposeParams {
    uint rows;
    uint columns;
    uint x_stride;
    uint y_stride;
};
static_assert(sizeof(TransposeParams) == 16, "as the host has it");
static_assert(__builtin_offsetof(TransposeParams, rows) == 0, "as the host has it");
static_assert(__builtin_offsetof(TransposeParams, columns) == 4, "as the host has it");
static_assert(__builtin_offsetof(TransposeParams, x_stride) == 8, "as the host has it");
static_assert(__builtin_offsetof(TransposeParams, y_stride) == 12, "as the host has it");

struct HeadRearrangeParams {
    uint rows;
    uint heads;
    uint head_dim;
    uint x_stride;
};
static_assert(sizeof(HeadRearrangeParams) == 16, "as the host has it");
static_assert(__builtin_offsetof(HeadRearrangeParams, rows) == 0, "as the host has it");
static_assert(__builtin_offsetof(HeadRearrangeParams, heads) == 4, "as the host has it");
static_assert(__builtin_offsetof(HeadRearrangeParams, head_dim) == 8, "as the host has it");
static_assert(__builtin_offsetof(HeadRearrangeParams, x_stride) == 12, "as the host has it");

struct QKVSplitParams {
    uint q_dim;
    uint kv_dim;
    uint x_stride;
    uint q_stride;
    uint kv_stride;
    uint unused[3];
};
static_assert(sizeof(QKVSplitParams) == 32, "as the host has it");
static_assert(__builtin_offsetof(QKVSplitParams, q_dim) == 0, "as the host has it");
static_assert(__builtin_offsetof(QKVSplitParams, kv_dim) == 4, "as the host has it");
static_assert(__builtin_offsetof(QKVSplitParams, x_stride) == 8, "as the host has it");
static_assert(__builtin_offsetof(QKVSplitParams, q_stride) == 12, "as the host has it");
static_assert(__builtin_offsetof(QKVSplitParams, kv_stride) == 16, "as the host has it");

struct UnfoldParams {
    uint rows;
    uint channels;
    uint taps;
    uint stride;
    uint x_stride;
    uint y_stride;
    uint unused[2];
};
static_assert(sizeof(UnfoldParams) == 32, "as the host has it");
static_assert(__builtin_offsetof(UnfoldParams, rows) == 0, "as the host has it");
static_assert(__builtin_offsetof(UnfoldParams, channels) == 4, "as the host has it");
static_assert(__builtin_offsetof(UnfoldParams, taps) == 8, "as the host has it");
static_assert(__builtin_offsetof(UnfoldParams, stride) == 12, "as the host has it");
static_assert(__builtin_offsetof(UnfoldParams, x_stride) == 16, "as the host has it");
static_assert(__builtin_offsetof(UnfoldParams, y_stride) == 20, "as the host has it");

struct Conv1DParams {
    uint in_frames;
    uint out_frames;
    uint in_channels;
    uint out_channels;
    uint taps;
    uint stride;
    uint padding;
    uint activation;
    uint has_bias;
    uint x_stride;
    uint y_stride;
    uint unused[1];
};
static_assert(sizeof(Conv1DParams) == 48, "as the host has it");
static_assert(__builtin_offsetof(Conv1DParams, in_frames) == 0, "as the host has it");
static_assert(__builtin_offsetof(Conv1DParams, out_frames) == 4, "as the host has it");
static_assert(__builtin_offsetof(Conv1DParams, in_channels) == 8, "as the host has it");
static_assert(__builtin_offsetof(Conv1DParams, out_channels) == 12, "as the host has it");
static_assert(__builtin_offsetof(Conv1DParams, taps) == 16, "as the host has it");
static_assert(__builtin_offsetof(Conv1DParams, stride) == 20, "as the host has it");
static_assert(__builtin_offsetof(Conv1DParams, padding) == 24, "as the host has it");
static_assert(__builtin_offsetof(Conv1DParams, activation) == 28, "as the host has it");
static_assert(__builtin_offsetof(Conv1DParams, has_bias) == 32, "as the host has it");
static_assert(__builtin_offsetof(Conv1DParams, x_stride) == 36, "as the host has it");
static_assert(__builtin_offsetof(Conv1DParams, y_stride) == 40, "as the host has it");

struct PosEmbedAddParams {
    uint dim;
    uint first;
    uint x_stride;
    uint y_stride;
};
static_assert(sizeof(PosEmbedAddParams) == 16, "as the host has it");
static_assert(__builtin_offsetof(PosEmbedAddParams, dim) == 0, "as the host has it");
static_assert(__builtin_offsetof(PosEmbedAddParams, first) == 4, "as the host has it");
static_assert(__builtin_offsetof(PosEmbedAddParams, x_stride) == 8, "as the host has it");
static_assert(__builtin_offsetof(PosEmbedAddParams, y_stride) == 12, "as the host has it");

struct ConvertParams {
    uint rows;
    uint dim;
    uint x_stride;
    uint y_stride;
    uint row_bytes;
    uint side_bytes;
    uint unused[2];
};
static_assert(sizeof(ConvertParams) == 32, "as the host has it");
static_assert(__builtin_offsetof(ConvertParams, rows) == 0, "as the host has it");
static_assert(__builtin_offsetof(ConvertParams, dim) == 4, "as the host has it");
static_assert(__builtin_offsetof(ConvertParams, x_stride) == 8, "as the host has it");
static_assert(__builtin_offsetof(ConvertParams, y_stride) == 12, "as the host has it");
static_assert(__builtin_offsetof(ConvertParams, row_bytes) == 16, "as the host has it");
static_assert(__builtin_offsetof(ConvertParams, side_bytes) == 20, "as the host has it");

struct EmbeddingParams {
    uint rows;
    uint dim;
    uint vocab;
    uint index;
    uint y_stride;
    uint row_bytes;
    uint side_bytes;
    float scale;
};
static_assert(sizeof(EmbeddingParams) == 32, "as the host has it");
static_assert(__builtin_offsetof(EmbeddingParams, rows) == 0, "as the host has it");
static_assert(__builtin_offsetof(EmbeddingParams, dim) == 4, "as the host has it");
static_assert(__builtin_offsetof(EmbeddingParams, vocab) == 8, "as the host has it");
static_assert(__builtin_offsetof(EmbeddingParams, index) == 12, "as the host has it");
static_assert(__builtin_offsetof(EmbeddingParams, y_stride) == 16, "as the host has it");
static_assert(__builtin_offsetof(EmbeddingParams, row_bytes) == 20, "as the host has it");
static_assert(__builtin_offsetof(EmbeddingParams, side_bytes) == 24, "as the host has it");
static_assert(__builtin_offsetof(EmbeddingParams, scale) == 28, "as the host has it");

struct GEMVHeadNormParams {
    uint head_dim;
    uint k;
    uint row_bytes;
    uint side_bytes;
    uint x_stride;
    uint y_stride;
    uint angles_stride;
    uint pairs;
    uint style;
    uint has_bias;
    uint has_norm;
    float eps;
};
static_assert(sizeof(GEMVHeadNormParams) == 48, "as the host has it");
static_assert(__builtin_offsetof(GEMVHeadNormParams, head_dim) == 0, "as the host has it");
static_assert(__builtin_offsetof(GEMVHeadNormParams, k) == 4, "as the host has it");
static_assert(__builtin_offsetof(GEMVHeadNormParams, row_bytes) == 8, "as the host has it");
static_assert(__builtin_offsetof(GEMVHeadNormParams, side_bytes) == 12, "as the host has it");
static_assert(__builtin_offsetof(GEMVHeadNormParams, x_stride) == 16, "as the host has it");
static_assert(__builtin_offsetof(GEMVHeadNormParams, y_stride) == 20, "as the host has it");
static_assert(__builtin_offsetof(GEMVHeadNormParams, angles_stride) == 24, "as the host has it");
static_assert(__builtin_offsetof(GEMVHeadNormParams, pairs) == 28, "as the host has it");
static_assert(__builtin_offsetof(GEMVHeadNormParams, style) == 32, "as the host has it");
static_assert(__builtin_offsetof(GEMVHeadNormParams, has_bias) == 36, "as the host has it");
static_assert(__builtin_offsetof(GEMVHeadNormParams, has_norm) == 40, "as the host has it");
static_assert(__builtin_offsetof(GEMVHeadNormParams, eps) == 44, "as the host has it");

struct GEMVKVParams {
    GEMVHeadNormParams product;
    KVParams kv;
    uint are_values;
};
static_assert(sizeof(GEMVKVParams) == 80, "as the host has it");
static_assert(__builtin_offsetof(GEMVKVParams, product) == 0, "as the host has it");
static_assert(__builtin_offsetof(GEMVKVParams, kv) == 48, "as the host has it");
static_assert(__builtin_offsetof(GEMVKVParams, are_values) == 76, "as the host has it");

struct KVCacheWriteParams {
    uint rows;
    uint head_dim;
    KVParams kv;
    uint k_stride;
    uint v_stride;
    uint unused[1];
};
static_assert(sizeof(KVCacheWriteParams) == 48, "as the host has it");
static_assert(__builtin_offsetof(KVCacheWriteParams, rows) == 0, "as the host has it");
static_assert(__builtin_offsetof(KVCacheWriteParams, head_dim) == 4, "as the host has it");
static_assert(__builtin_offsetof(KVCacheWriteParams, kv) == 8, "as the host has it");
static_assert(__builtin_offsetof(KVCacheWriteParams, k_stride) == 36, "as the host has it");
static_assert(__builtin_offsetof(KVCacheWriteParams, v_stride) == 40, "as the host has it");

struct KVCacheShiftParams {
    uint keep;
    uint drop;
    uint length;
    uint head_dim;
    KVParams kv;
    uint pairs;
    uint style;
    uint unused[3];
};
static_assert(sizeof(KVCacheShiftParams) == 64, "as the host has it");
static_assert(__builtin_offsetof(KVCacheShiftParams, keep) == 0, "as the host has it");
static_assert(__builtin_offsetof(KVCacheShiftParams, drop) == 4, "as the host has it");
static_assert(__builtin_offsetof(KVCacheShiftParams, length) == 8, "as the host has it");
static_assert(__builtin_offsetof(KVCacheShiftParams, head_dim) == 12, "as the host has it");
static_assert(__builtin_offsetof(KVCacheShiftParams, kv) == 16, "as the host has it");
static_assert(__builtin_offsetof(KVCacheShiftParams, pairs) == 44, "as the host has it");
static_assert(__builtin_offsetof(KVCacheShiftParams, style) == 48, "as the host has it");

struct GEMMParams {
    uint m;
    uint n;
    uint k;
    uint lda;
    uint ldb;
    uint side_bytes;
    uint ldc;
    uint ldr;
};
static_assert(sizeof(GEMMParams) == 32, "as the host has it");
static_assert(__builtin_offsetof(GEMMParams, m) == 0, "as the host has it");
static_assert(__builtin_offsetof(GEMMParams, n) == 4, "as the host has it");
static_assert(__builtin_offsetof(GEMMParams, k) == 8, "as the host has it");
static_assert(__builtin_offsetof(GEMMParams, lda) == 12, "as the host has it");
static_assert(__builtin_offsetof(GEMMParams, ldb) == 16, "as the host has it");
static_assert(__builtin_offsetof(GEMMParams, side_bytes) == 20, "as the host has it");
static_assert(__builtin_offsetof(GEMMParams, ldc) == 24, "as the host has it");
static_assert(__builtin_offsetof(GEMMParams, ldr) == 28, "as the host has it");

struct GEMVParams {
    uint rows;
    uint n;
    uint k;
    uint x_stride;
    uint y_stride;
    uint residual_stride;
    uint row_bytes;
    uint side_bytes;
    uint activation;
    float scale;
    float soft_cap;
    uint has_bias;
    uint maxima_stride;
    uint unused[3];
};
static_assert(sizeof(GEMVParams) == 64, "as the host has it");
static_assert(__builtin_offsetof(GEMVParams, rows) == 0, "as the host has it");
static_assert(__builtin_offsetof(GEMVParams, n) == 4, "as the host has it");
static_assert(__builtin_offsetof(GEMVParams, k) == 8, "as the host has it");
static_assert(__builtin_offsetof(GEMVParams, x_stride) == 12, "as the host has it");
static_assert(__builtin_offsetof(GEMVParams, y_stride) == 16, "as the host has it");
static_assert(__builtin_offsetof(GEMVParams, residual_stride) == 20, "as the host has it");
static_assert(__builtin_offsetof(GEMVParams, row_bytes) == 24, "as the host has it");
static_assert(__builtin_offsetof(GEMVParams, side_bytes) == 28, "as the host has it");
static_assert(__builtin_offsetof(GEMVParams, activation) == 32, "as the host has it");
static_assert(__builtin_offsetof(GEMVParams, scale) == 36, "as the host has it");
static_assert(__builtin_offsetof(GEMVParams, soft_cap) == 40, "as the host has it");
static_assert(__builtin_offsetof(GEMVParams, has_bias) == 44, "as the host has it");
static_assert(__builtin_offsetof(GEMVParams, maxima_stride) == 48, "as the host has it");

struct RMSNormParams {
    uint rows;
    uint dim;
    uint x_stride;
    uint y_stride;
    uint residual_stride;
    float eps;
    float scale;
    uint unused[1];
};
static_assert(sizeof(RMSNormParams) == 32, "as the host has it");
static_assert(__builtin_offsetof(RMSNormParams, rows) == 0, "as the host has it");
static_assert(__builtin_offsetof(RMSNormParams, dim) == 4, "as the host has it");
static_assert(__builtin_offsetof(RMSNormParams, x_stride) == 8, "as the host has it");
static_assert(__builtin_offsetof(RMSNormParams, y_stride) == 12, "as the host has it");
static_assert(__builtin_offsetof(RMSNormParams, residual_stride) == 16, "as the host has it");
static_assert(__builtin_offsetof(RMSNormParams, eps) == 20, "as the host has it");
static_assert(__builtin_offsetof(RMSNormParams, scale) == 24, "as the host has it");

struct LayerNormParams {
    uint rows;
    uint dim;
    uint x_stride;
    uint y_stride;
    uint residual_stride;
    float eps;
    float scale;
    uint has_bias;
};
static_assert(sizeof(LayerNormParams) == 32, "as the host has it");
static_assert(__builtin_offsetof(LayerNormParams, rows) == 0, "as the host has it");
static_assert(__builtin_offsetof(LayerNormParams, dim) == 4, "as the host has it");
static_assert(__builtin_offsetof(LayerNormParams, x_stride) == 8, "as the host has it");
static_assert(__builtin_offsetof(LayerNormParams, y_stride) == 12, "as the host has it");
static_assert(__builtin_offsetof(LayerNormParams, residual_stride) == 16, "as the host has it");
static_assert(__builtin_offsetof(LayerNormParams, eps) == 20, "as the host has it");
static_assert(__builtin_offsetof(LayerNormParams, scale) == 24, "as the host has it");
static_assert(__builtin_offsetof(LayerNormParams, has_bias) == 28, "as the host has it");

struct HeadNormParams {
    uint heads;
    uint head_dim;
    uint x_stride;
    uint has_weight;
    float eps;
    uint unused[3];
};
static_assert(sizeof(HeadNormParams) == 32, "as the host has it");
static_assert(__builtin_offsetof(HeadNormParams, heads) == 0, "as the host has it");
static_assert(__builtin_offsetof(HeadNormParams, head_dim) == 4, "as the host has it");
static_assert(__builtin_offsetof(HeadNormParams, x_stride) == 8, "as the host has it");
static_assert(__builtin_offsetof(HeadNormParams, has_weight) == 12, "as the host has it");
static_assert(__builtin_offsetof(HeadNormParams, eps) == 16, "as the host has it");

struct RoPEAnglesParams {
    uint pairs;
    float magnitude;
    uint y_stride;
    float slope;
    float period;
    uint unused[3];
};
static_assert(sizeof(RoPEAnglesParams) == 32, "as the host has it");
static_assert(__builtin_offsetof(RoPEAnglesParams, pairs) == 0, "as the host has it");
static_assert(__builtin_offsetof(RoPEAnglesParams, magnitude) == 4, "as the host has it");
static_assert(__builtin_offsetof(RoPEAnglesParams, y_stride) == 8, "as the host has it");
static_assert(__builtin_offsetof(RoPEAnglesParams, slope) == 12, "as the host has it");
static_assert(__builtin_offsetof(RoPEAnglesParams, period) == 16, "as the host has it");

struct RoPEParams {
    uint heads;
    uint head_dim;
    uint pairs;
    uint has_norm;
    float eps;
    uint x_stride;
    uint angles_stride;
    uint unused[1];
};
static_assert(sizeof(RoPEParams) == 32, "as the host has it");
static_assert(__builtin_offsetof(RoPEParams, heads) == 0, "as the host has it");
static_assert(__builtin_offsetof(RoPEParams, head_dim) == 4, "as the host has it");
static_assert(__builtin_offsetof(RoPEParams, pairs) == 8, "as the host has it");
static_assert(__builtin_offsetof(RoPEParams, has_norm) == 12, "as the host has it");
static_assert(__builtin_offsetof(RoPEParams, eps) == 16, "as the host has it");
static_assert(__builtin_offsetof(RoPEParams, x_stride) == 20, "as the host has it");
static_assert(__builtin_offsetof(RoPEParams, angles_stride) == 24, "as the host has it");

struct RoPEQKVWriteParams {
    uint heads;
    uint kv_heads;
    uint head_dim;
    uint pairs;
    float eps;
    uint q_stride;
    uint k_stride;
    uint v_stride;
    uint angles_stride;
    uint unused[3];
};
static_assert(sizeof(RoPEQKVWriteParams) == 48, "as the host has it");
static_assert(__builtin_offsetof(RoPEQKVWriteParams, heads) == 0, "as the host has it");
static_assert(__builtin_offsetof(RoPEQKVWriteParams, kv_heads) == 4, "as the host has it");
static_assert(__builtin_offsetof(RoPEQKVWriteParams, head_dim) == 8, "as the host has it");
static_assert(__builtin_offsetof(RoPEQKVWriteParams, pairs) == 12, "as the host has it");
static_assert(__builtin_offsetof(RoPEQKVWriteParams, eps) == 16, "as the host has it");
static_assert(__builtin_offsetof(RoPEQKVWriteParams, q_stride) == 20, "as the host has it");
static_assert(__builtin_offsetof(RoPEQKVWriteParams, k_stride) == 24, "as the host has it");
static_assert(__builtin_offsetof(RoPEQKVWriteParams, v_stride) == 28, "as the host has it");
static_assert(__builtin_offsetof(RoPEQKVWriteParams, angles_stride) == 32, "as the host has it");

struct RoPEQKVCacheParams {
    RoPEQKVWriteParams rope;
    KVParams kv;
    uint has_q_norm;
    uint has_k_norm;
    uint unused[3];
};
static_assert(sizeof(RoPEQKVCacheParams) == 96, "as the host has it");
static_assert(__builtin_offsetof(RoPEQKVCacheParams, rope) == 0, "as the host has it");
static_assert(__builtin_offsetof(RoPEQKVCacheParams, kv) == 48, "as the host has it");
static_assert(__builtin_offsetof(RoPEQKVCacheParams, has_q_norm) == 76, "as the host has it");
static_assert(__builtin_offsetof(RoPEQKVCacheParams, has_k_norm) == 80, "as the host has it");

struct SamplingParams {
    uint n;
    uint x_stride;
    uint maxima_stride;
    uint drawn_stride;
    uint total_stride;
    uint has_drawn;
    uint has_total;
    uint unused[1];
};
static_assert(sizeof(SamplingParams) == 32, "as the host has it");
static_assert(__builtin_offsetof(SamplingParams, n) == 0, "as the host has it");
static_assert(__builtin_offsetof(SamplingParams, x_stride) == 4, "as the host has it");
static_assert(__builtin_offsetof(SamplingParams, maxima_stride) == 8, "as the host has it");
static_assert(__builtin_offsetof(SamplingParams, drawn_stride) == 12, "as the host has it");
static_assert(__builtin_offsetof(SamplingParams, total_stride) == 16, "as the host has it");
static_assert(__builtin_offsetof(SamplingParams, has_drawn) == 20, "as the host has it");
static_assert(__builtin_offsetof(SamplingParams, has_total) == 24, "as the host has it");

struct TopKParams {
    uint n;
    uint k;
    uint x_stride;
    uint unused[1];
};
static_assert(sizeof(TopKParams) == 16, "as the host has it");
static_assert(__builtin_offsetof(TopKParams, n) == 0, "as the host has it");
static_assert(__builtin_offsetof(TopKParams, k) == 4, "as the host has it");
static_assert(__builtin_offsetof(TopKParams, x_stride) == 8, "as the host has it");

struct GumbelTopKParams {
    uint n;
    uint k;
    uint x_stride;
    float temperature;
    uint seed[2];
    uint index;
    uint unused[1];
};
static_assert(sizeof(GumbelTopKParams) == 32, "as the host has it");
static_assert(__builtin_offsetof(GumbelTopKParams, n) == 0, "as the host has it");
static_assert(__builtin_offsetof(GumbelTopKParams, k) == 4, "as the host has it");
static_assert(__builtin_offsetof(GumbelTopKParams, x_stride) == 8, "as the host has it");
static_assert(__builtin_offsetof(GumbelTopKParams, temperature) == 12, "as the host has it");
static_assert(__builtin_offsetof(GumbelTopKParams, seed) == 16, "as the host has it");
static_assert(__builtin_offsetof(GumbelTopKParams, index) == 24, "as the host has it");

struct TemperatureScaleParams {
    uint n;
    uint stride;
    float temperature;
    uint unused[1];
};
static_assert(sizeof(TemperatureScaleParams) == 16, "as the host has it");
static_assert(__builtin_offsetof(TemperatureScaleParams, n) == 0, "as the host has it");
static_assert(__builtin_offsetof(TemperatureScaleParams, stride) == 4, "as the host has it");
static_assert(__builtin_offsetof(TemperatureScaleParams, temperature) == 8, "as the host has it");

struct RepetitionPenaltyParams {
    uint n;
    uint count;
    float penalty;
    uint unused[1];
};
static_assert(sizeof(RepetitionPenaltyParams) == 16, "as the host has it");
static_assert(__builtin_offsetof(RepetitionPenaltyParams, n) == 0, "as the host has it");
static_assert(__builtin_offsetof(RepetitionPenaltyParams, count) == 4, "as the host has it");
static_assert(__builtin_offsetof(RepetitionPenaltyParams, penalty) == 8, "as the host has it");

struct GrammarBitmaskParams {
    uint n;
    uint stride;
    uint mask_stride;
    uint unused[1];
};
static_assert(sizeof(GrammarBitmaskParams) == 16, "as the host has it");
static_assert(__builtin_offsetof(GrammarBitmaskParams, n) == 0, "as the host has it");
static_assert(__builtin_offsetof(GrammarBitmaskParams, stride) == 4, "as the host has it");
static_assert(__builtin_offsetof(GrammarBitmaskParams, mask_stride) == 8, "as the host has it");
