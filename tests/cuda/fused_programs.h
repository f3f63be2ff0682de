// Programs that fused_source wrote, compiled for the host: what a GPU does with them, thread by thread.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

namespace perigee {

class FusedPrograms {
 public:
  ~FusedPrograms() {
    if (handle_ != nullptr) ::dlclose(handle_);
  }

  void note(const std::string& text) { names_.try_emplace(text, "program" + std::to_string(names_.size())); }
  size_t size() const { return names_.size(); }

  void compile() {
    const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / ("perigee_fused_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder);
    std::ofstream file(folder / "programs.cpp");
    file << kPrelude;
    for (const auto& [text, name] : names_) {
      std::string own = text;
      own.replace(own.find("perigee_fused"), std::string("perigee_fused").size(), name);
      file << own << "extern \"C\" void run_" << name << "(unsigned blocks, unsigned threads, void** arguments) { run(" << name
           << ", blocks, threads, arguments); }\n";
    }
    file.close();
    const char* compiler = std::getenv("CXX");
    const std::string command = std::string(compiler != nullptr ? compiler : "c++") +
                                " -std=c++17 -O0 -w -ffp-contract=off -fPIC -shared -o " + (folder / "programs.so").string() + " " +
                                (folder / "programs.cpp").string();
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
    handle_ = ::dlopen((folder / "programs.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(handle_, nullptr) << ::dlerror();
    std::filesystem::remove_all(folder);
  }

  void run(const std::string& text, unsigned blocks, unsigned threads, void** arguments) const {
    const auto found = names_.find(text);
    ASSERT_NE(found, names_.end()) << text;
    auto* const function = reinterpret_cast<void (*)(unsigned, unsigned, void**)>(::dlsym(handle_, ("run_" + found->second).c_str()));
    ASSERT_NE(function, nullptr);
    function(blocks, threads, arguments);
  }

 private:
  // fused_prelude() for a host.
  static constexpr const char* kPrelude = R"(
#include <math.h>
#include <string.h>
#include <utility>
#define __global__
struct Dim { unsigned x; };
static Dim blockIdx, blockDim, threadIdx;
static unsigned begun;
inline void begin_kernel() { ++begun; }
template <class E> struct alignas(sizeof(E) * 4 < 16 ? sizeof(E) * 4 : 16) Four { E v[4]; };
template <class To, class From> To same_bits(From from) { To to; memcpy(&to, &from, sizeof to); return to; }
inline float float_of_bits(unsigned bits) { return same_bits<float>(bits); }
inline double double_of_bits(unsigned long long bits) { return same_bits<double>(bits); }
inline float float_from_bf16(unsigned short h) { return float_of_bits((unsigned)h << 16); }
inline unsigned short bf16_from_float(float x) { unsigned b = same_bits<unsigned>(x); return (b + 0x7fff + ((b >> 16) & 1)) >> 16; }
inline float float_from_f16(unsigned short h) { return (float)same_bits<_Float16>(h); }
inline unsigned short f16_from_float(float x) { return same_bits<unsigned short>((_Float16)x); }
template <class... A, size_t... I> void call(void (*f)(A...), void** arguments, std::index_sequence<I...>) { f(*(A*)arguments[I]...); }
template <class... A> void run(void (*f)(A...), unsigned blocks, unsigned threads, void** arguments) {
  blockDim.x = threads, begun = 0;
  for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x)
    for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) call(f, arguments, std::index_sequence_for<A...>());
  if (begun != blocks * threads) __builtin_trap();  // a thread did not wait for the kernels before
}
)";

  std::map<std::string, std::string> names_;
  void* handle_ = nullptr;
};

}  // namespace perigee
