// What works.
using namespace metal;

constant uint scale [[function_constant(3)]];
constant bool doubles [[function_constant(4)]];

struct Params {
    uint columns;
    float epsilon;
    uint unused[2];
};

template <class T>
kernel void norm(device const T *input [[buffer(0)]], device const float *weight [[buffer(1)]], device T *output [[buffer(2)]],
                 constant Params &p [[buffer(3)]], uint row [[threadgroup_position_in_grid]],
                 uint index [[thread_index_in_threadgroup]], uint threads [[threads_per_threadgroup]],
                 uint lane [[thread_index_in_simdgroup]], uint simd [[simdgroup_index_in_threadgroup]],
                 uint simds [[simdgroups_per_threadgroup]]) {
    threadgroup float sums[32];
    device const T *in = input + row * p.columns;
    float sum = 0;
    for (uint i = index; i < p.columns; i += threads) sum += float(in[i]) * float(in[i]);
    sum = simd_sum(sum);
    if (lane == 0) sums[simd] = sum;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    float total = 0;
    for (uint i = 0; i < simds; i++) total += sums[i];
    const float by = rsqrt(total / float(p.columns) + p.epsilon);
    for (uint i = index; i < p.columns; i += threads) output[row * p.columns + i] = T(float(in[i]) * by * weight[i]);
}
INSTANTIATE(norm_f32, norm, float)
INSTANTIATE(norm_f16, norm, half)

// 16 by 16, by four SIMD groups, through threadgroup memory that the host sizes.
kernel void multiply(device const half *a [[buffer(0)]], device const half *b [[buffer(1)]], device float *c [[buffer(2)]],
                     threadgroup float *tile [[threadgroup(0)]], uint index [[thread_index_in_threadgroup]],
                     uint simd [[simdgroup_index_in_threadgroup]]) {
    const uint row = simd / 2 * 8, column = simd % 2 * 8;
    simdgroup_half8x8 left, right;
    simdgroup_float8x8 sum = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    for (uint k = 0; k < 16; k += 8) {
        simdgroup_load(left, a + row * 16 + k, 16);
        simdgroup_load(right, b + k * 16 + column, 16);
        simdgroup_multiply_accumulate(sum, left, right, sum);
    }
    simdgroup_store(sum, tile + row * 16 + column, 16);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    // Another thread's.
    for (uint i = index; i < 256; i += 128) c[255 - i] = tile[255 - i];
}

kernel void constants(device uint *output [[buffer(0)]], uint2 at [[thread_position_in_grid]],
                      uint2 size [[threads_per_threadgroup]]) {
    const uint by = is_function_constant_defined(doubles) && doubles ? 2 * scale : scale;
    output[at.y * size.x + at.x] = by * (at.y * size.x + at.x);
}

kernel void shuffles(device const uint *input [[buffer(0)]], device uint *output [[buffer(1)]],
                     uint lane [[thread_index_in_simdgroup]]) {
    const uint mine = input[lane];
    output[lane] = simd_shuffle_xor(mine, 1);
    output[32 + lane] = simd_shuffle_down(mine, 8);
    output[64 + lane] = simd_max(mine);
    output[96 + lane] = simd_prefix_inclusive_sum(mine);
}

// Every pattern of 16 bits, as a float and back.
kernel void halves(device const half *input [[buffer(0)]], device float *wide [[buffer(1)]], device half *again [[buffer(2)]],
                   device const bfloat *brain [[buffer(3)]], device float *brain_wide [[buffer(4)]],
                   device bfloat *brain_again [[buffer(5)]], uint at [[thread_position_in_grid]]) {
    wide[at] = float(input[at]);
    again[at] = half(wide[at] * 1.0001f);
    brain_wide[at] = float(brain[at]);
    brain_again[at] = bfloat(brain_wide[at] * 1.001f);
}

kernel void count(device atomic_uint *counts [[buffer(0)]], device const uint *values [[buffer(1)]],
                  uint at [[thread_position_in_grid]]) {
    atomic_fetch_add_explicit(counts + values[at], 1u, memory_order_relaxed);
}

// What the calibration with MLX's kernels has found.
struct Extent {
    uint count, stride;
};
constant bool counts [[function_constant(300)]];

template <class T, int N>
[[kernel, max_total_threads_per_threadgroup(32)]] void declares(
    device T *output, /* the first that is free */
    const constant Extent &extent [[buffer(0)]], device const T *input,
    device const uint *more [[buffer(3), function_constant(counts)]], uint lane [[thread_index_in_simdgroup]]) {
    static constant constexpr const int twice = 2 * N;
    threadgroup T shared
        [twice];
    shared[lane] = input[lane];
    simdgroup_barrier(mem_flags::mem_threadgroup);
    output[lane * extent.stride] = T(shared[31 - lane] + (counts ? more[lane] : 0));
}
INSTANTIATE(declares_f32, declares, float, 16)

kernel void mixes(device float *output [[buffer(0)]], device const half *input [[buffer(1)]], device const float *numbers [[buffer(2)]]) {
    // An integer becomes a half: 2049 is none.
    output[0] = float(input[0] + 1);
    output[1] = float(-input[0] * 2);
    output[2] = float(numeric_limits<half>::max());
    output[3] = float(-numeric_limits<bfloat>::infinity());
    // The first is no number.
    output[4] = max(numbers[0], numbers[1]);
    output[5] = min(numbers[0], numbers[1]);
    output[6] = clamp(numbers[0], 2.0f, 3.0f);
    output[7] = max(float2(numbers[1], 1), float2(1, 2)).y;
    // Subnormal.
    output[8] = numbers[2] * 0.5f;
    output[9] = numbers[3] * 2;
}

kernel void lanes(device const uint *input [[buffer(0)]], device uint *output [[buffer(1)]], uint lane [[thread_index_in_simdgroup]],
                  uint quad [[quadgroup_index_in_threadgroup]], uint in_quad [[thread_index_in_quadgroup]],
                  uint all [[threads_per_grid]]) {
    const uint mine = input[lane];
    output[lane] = simd_shuffle_and_fill_up(mine, 1000 + lane, 3);
    output[32 + lane] = simd_shuffle_and_fill_down(mine, 1000 + lane, 3);
    output[64 + lane] = simd_prefix_exclusive_sum(mine);
    output[96 + lane] = simd_prefix_inclusive_product(lane % 8 == 7 ? 2u : 1u);
    output[128 + lane] = simd_prefix_exclusive_product(lane % 8 == 7 ? 2u : 1u);
    output[160 + lane] = quad_sum(mine);
    output[192 + lane] = simd_and(mine | 64) + simd_xor(mine) + simd_product(lane < 5 ? 2u : 1u);
    output[224 + lane] = all * 1000 + quad * 4 + in_quad;
}
