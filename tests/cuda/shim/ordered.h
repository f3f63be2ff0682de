// Included first where accesses are told (races.cpp): what the device orders itself is not among them.
#pragma once

#define SHIM_ORDERED __attribute__((no_sanitize("thread")))
template <class T>
SHIM_ORDERED T atomicAdd(T* to, T value);
template <class T>
SHIM_ORDERED T atomicMax(T* to, T value);
SHIM_ORDERED inline unsigned atomicInc(unsigned* to, unsigned highest);
template <class T>
SHIM_ORDERED T __ldcg(const T* from);
#undef SHIM_ORDERED
