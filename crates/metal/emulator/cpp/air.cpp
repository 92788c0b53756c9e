// What kernels that Apple's compiler has compiled call. Their accesses are not watched, since they are not instrumented.
#include <metal_stdlib>

using namespace metal;

namespace {
typedef float Two __attribute__((vector_size(8)));
typedef int TwoInts __attribute__((vector_size(8)));
const char *const FILE_NAME = "a Metal library";
unsigned place() { return 0; }
} // namespace

// Compared by their names: where they are called from is not known.
#define AIR(type, name, symbol, arguments, ...)                                                                                        \
    extern "C" type name arguments __asm__(symbol);                                                                                    \
    type name arguments { return __VA_ARGS__; }
#define AIR_SIMD(name) AIR(float, air_##name, "air." #name ".f32", (float x), metal::name(x, FILE_NAME, place()))
#define AIR_SHUFFLE(name) AIR(float, air_##name, "air." #name ".f32", (float x, short by), metal::name(x, ushort(by), FILE_NAME, place()))

AIR_SIMD(simd_sum)
AIR_SIMD(simd_max)
AIR_SIMD(simd_prefix_inclusive_sum)
AIR_SIMD(simd_prefix_exclusive_sum)
AIR_SHUFFLE(simd_shuffle_xor)
AIR_SHUFFLE(simd_shuffle_down)
AIR(float, air_fill_up, "air.simd_shuffle_and_fill_up.f32", (float x, float fills, short by, short),
    simd_shuffle_and_fill_up(x, fills, ushort(by), FILE_NAME, place()))
AIR(TwoInts, air_fill_up_two, "air.simd_shuffle_and_fill_up.u.v2i32", (TwoInts x, TwoInts fills, short by, short),
    simd_shuffle_and_fill_up(x, fills, ushort(by), FILE_NAME, place()))
AIR(short, air_simdgroup_size, "air.get_simdgroup_size.i16", (), emulator::SIMD_WIDTH)
AIR(void, air_wg_barrier, "air.wg.barrier", (int flags, int), metal::threadgroup_barrier(mem_flags(flags), FILE_NAME, place()))
AIR(void, air_simdgroup_barrier, "air.simdgroup.barrier", (int flags, int), metal::simdgroup_barrier(mem_flags(flags), FILE_NAME, place()))

AIR(float, air_fast_exp, "air.fast_exp.f32", (float x), fast::exp(x))
AIR(float, air_fast_exp2, "air.fast_exp2.f32", (float x), fast::exp2(x))
AIR(float, air_fast_log, "air.fast_log.f32", (float x), fast::log(x))
AIR(float, air_log2, "air.log2.f32", (float x), metal::log2(x))
AIR(float, air_fmax, "air.fmax.f32", (float a, float b), metal::fmax(a, b))
AIR(float, air_float_of_int, "air.convert.f.f32.s.i32", (int x), float(x))
AIR(int, air_min, "air.min.s.i32", (int a, int b), metal::min(a, b))
AIR(int, air_max, "air.max.s.i32", (int a, int b), metal::max(a, b))
AIR(int, air_clamp, "air.clamp.s.i32", (int x, int low, int high), metal::clamp(x, low, high))
AIR(bool, air_uniform_bool, "air.is_uniform.i1", (bool), true)
AIR(bool, air_uniform_int, "air.is_uniform.i32", (int), true)
AIR(char, air_predicate, "air.normalize_function_constant_predicate.i8", (char x), x != 0)

// Of matrices, a lane's two elements, which in a library are the first of 64.
namespace {
simdgroup_matrix<float, 8, 8> of_two(Two elements) {
    simdgroup_matrix<float, 8, 8> matrix;
    for (unsigned n = 0; n < 2; n++) matrix.elements[n] = elements[n];
    return matrix;
}
Two two_of(const simdgroup_matrix<float, 8, 8> &matrix) { return Two{matrix.elements[0], matrix.elements[1]}; }
} // namespace

extern "C" Two emulator_air_multiply(Two a, Two b, Two c) {
    simdgroup_matrix<float, 8, 8> d;
    simdgroup_multiply_accumulate(d, of_two(a), of_two(b), of_two(c), FILE_NAME, place());
    return two_of(d);
}
extern "C" Two emulator_air_load(const float *at, ulong stride, ulong x, ulong y, int transposed) {
    simdgroup_matrix<float, 8, 8> d;
    simdgroup_load(d, at, stride, ulong2(x, y), transposed, FILE_NAME, place());
    return two_of(d);
}
extern "C" void emulator_air_store(Two d, float *at, ulong stride, ulong x, ulong y, int transposed) {
    simdgroup_store(of_two(d), at, stride, ulong2(x, y), transposed, FILE_NAME, place());
}

// Conversions that older versions of LLVM call.
extern "C" float __gnu_h2f_ieee(uint16_t bits) { return HalfBits::widen(bits); }
extern "C" uint16_t __gnu_f2h_ieee(float value) { return HalfBits::round(value); }
