// A stack of its own, and a way to go there and back.
#pragma once

#include <cstddef>

namespace emulator {

struct Fibre {
    void *stack_pointer;
};

// Saves where the caller is and goes on where `to` was left.
extern "C" void emulator_switch(void **from, void *to);
// A fibre that will begin with `entry`, on this stack.
void prepare(Fibre &fibre, char *stack, size_t bytes, void (*entry)());

} // namespace emulator
