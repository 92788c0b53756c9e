#include "fibre.h"

#include <cstdint>
#include <cstring>

// Saves the registers that a function keeps for its caller, and takes them from the other stack.
#if defined(__x86_64__)
asm(R"(
.text
.globl emulator_switch
emulator_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
)");
namespace {
// Below the entry's address, which `ret` takes; the stack is as after a call then.
constexpr size_t SAVED = 6, RETURN = 6;
} // namespace
#elif defined(__aarch64__)
asm(R"(
.text
.globl emulator_switch
.globl _emulator_switch
emulator_switch:
_emulator_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
)");
namespace {
constexpr size_t SAVED = 20, RETURN = 11;
} // namespace
#else
#error "fibres are written for x86-64 and aarch64"
#endif

namespace emulator {

void prepare(Fibre &fibre, char *stack, size_t bytes, void (*entry)()) {
    auto top = reinterpret_cast<uintptr_t>(stack + bytes) & ~uintptr_t{15};
#if defined(__x86_64__)
    // Where `entry` begins, the stack is 8 off from a multiple of 16.
    auto *frame = reinterpret_cast<void **>(top) - (SAVED + 2);
#else
    auto *frame = reinterpret_cast<void **>(top) - SAVED;
#endif
    std::memset(frame, 0, top - reinterpret_cast<uintptr_t>(frame));
    frame[RETURN] = reinterpret_cast<void *>(entry);
    fibre.stack_pointer = frame;
}

} // namespace emulator
