// What must be found.
using namespace metal;

kernel void no_barrier(device float *output [[buffer(0)]], uint index [[thread_index_in_threadgroup]]) {
    threadgroup float shared[64];
    shared[index] = float(index);
    output[index] = shared[63 - index];
}

kernel void overwritten(device float *output [[buffer(0)]], uint index [[thread_index_in_threadgroup]]) {
    threadgroup float shared[64];
    shared[index] = float(index);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    const float other = shared[63 - index];
    shared[index] = other;
    output[index] = other;
}

kernel void divergent_simd(device float *output [[buffer(0)]], uint index [[thread_index_in_threadgroup]]) {
    float sum = float(index);
    if (index < 5) sum = simd_sum(sum);
    output[index] = sum;
}

kernel void two_simd_operations(device float *output [[buffer(0)]], uint index [[thread_index_in_threadgroup]]) {
    output[index] = index % 2 == 0 ? simd_max(float(index)) : simd_sum(float(index));
}

kernel void divergent_barrier(device float *output [[buffer(0)]], uint index [[thread_index_in_threadgroup]]) {
    if (index < 32) threadgroup_barrier(mem_flags::mem_threadgroup);
    output[index] = 1;
}

kernel void past_the_end(device const float *input [[buffer(0)]], device float *output [[buffer(1)]],
                         uint index [[thread_index_in_threadgroup]]) {
    output[index] = input[index + 1];
}

kernel void before_the_start(device float *output [[buffer(0)]], uint index [[thread_index_in_threadgroup]]) {
    output[int(index) - 1] = 1;
}

kernel void past_the_shared(device float *output [[buffer(0)]], uint index [[thread_index_in_threadgroup]]) {
    threadgroup float shared[64];
    shared[index + 1] = 1;
    output[index] = 1;
}

kernel void writes_what_it_reads(device float *output [[buffer(0)]], uint index [[thread_index_in_threadgroup]]) {
    output[index] = 1;
}

kernel void too_much_shared(device float *output [[buffer(0)]], uint index [[thread_index_in_threadgroup]]) {
    threadgroup float shared[8448];
    shared[index] = 1;
    output[index] = shared[index];
}

kernel void unwritten_shared(device float *output [[buffer(0)]], uint index [[thread_index_in_threadgroup]]) {
    threadgroup float shared[128];
    shared[index] = 1;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    output[index] = shared[2 * index];
}

kernel void leaves_some(device float *output [[buffer(0)]], uint index [[thread_index_in_threadgroup]]) {
    if (index != 63) output[index] = 1;
}

kernel void same_output(device float *output [[buffer(0)]], uint at [[thread_position_in_grid]]) {
    output[at / 2] = 1;
}

kernel void across_threadgroups(device float *output [[buffer(0)]], uint at [[thread_position_in_grid]]) {
    output[at] = at >= 64 ? output[at - 64] : 1.0f;
}
