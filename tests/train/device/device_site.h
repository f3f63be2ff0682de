// Shared by tests of training on a device: the shim's counters and faults, its environment, errors as text.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <string>

#include "src/core/error.h"
#include "src/train/trainer.h"
#include "tests/cuda/shim/counters.h"
#include "tests/io/temporary.h"

namespace perigee {

// A sub-batch of the reference holds every batch of these tests, as on the device.
inline const TrainerOptions kDevice{.backend = Backend::cuda}, kReference{.threads = 1, .backend = Backend::ref, .sub_batch = 1000};

template <class F>
F* of_module(const char* name) {
  static void* const module = dlopen(std::getenv("PERIGEE_CUDA_MODULE"), RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<F*>(dlsym(module, name));
}

inline shim::Counters& counters() { return *of_module<shim::Counters*()>("shim_counters")(); }

// The nth allocation or kernel from now on fails: "malloc", "launch", "launch@1"; "hang": it comes to no end.
struct Fault {
  Fault(const char* what, long nth) { of_module<void(const char*, long)>("shim_fault")(what, nth); }
  ~Fault() { of_module<void(const char*, long)>("shim_fault")("", 0); }
};

inline std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

inline void expect_parts(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' in: " << text;
}

}  // namespace perigee
