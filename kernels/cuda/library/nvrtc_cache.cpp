#include "kernels/cuda/library/nvrtc_cache.h"

#include <nvrtc.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "kernels/cuda/library/libraries.h"
#include "kernels/hash.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "perigee cuda code 1\n";

std::string hex(uint64_t number) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(number));
  return text.data();
}

struct Nvrtc {
  Nvrtc() {
    find_function(CudaLibrary::nvrtc, "nvrtcCreateProgram", &create);
    find_function(CudaLibrary::nvrtc, "nvrtcDestroyProgram", &destroy);
    find_function(CudaLibrary::nvrtc, "nvrtcCompileProgram", &compile);
    find_function(CudaLibrary::nvrtc, "nvrtcGetProgramLogSize", &log_size);
    find_function(CudaLibrary::nvrtc, "nvrtcGetProgramLog", &log);
    find_function(CudaLibrary::nvrtc, "nvrtcGetCUBINSize", &cubin_size);
    find_function(CudaLibrary::nvrtc, "nvrtcGetCUBIN", &cubin);
    find_function(CudaLibrary::nvrtc, "nvrtcGetPTXSize", &ptx_size);
    find_function(CudaLibrary::nvrtc, "nvrtcGetPTX", &ptx);
    find_function(CudaLibrary::nvrtc, "nvrtcGetNumSupportedArchs", &arch_count);
    find_function(CudaLibrary::nvrtc, "nvrtcGetSupportedArchs", &archs);
    find_function(CudaLibrary::nvrtc, "nvrtcGetErrorString", &error);
  }
  decltype(&nvrtcCreateProgram) create;
  decltype(&nvrtcDestroyProgram) destroy;
  decltype(&nvrtcCompileProgram) compile;
  decltype(&nvrtcGetProgramLogSize) log_size;
  decltype(&nvrtcGetProgramLog) log;
  decltype(&nvrtcGetCUBINSize) cubin_size;
  decltype(&nvrtcGetCUBIN) cubin;
  decltype(&nvrtcGetPTXSize) ptx_size;
  decltype(&nvrtcGetPTX) ptx;
  decltype(&nvrtcGetNumSupportedArchs) arch_count;
  decltype(&nvrtcGetSupportedArchs) archs;
  decltype(&nvrtcGetErrorString) error;
};

// "sm_90" where NVRTC knows the device, else "compute_80" of the newest before it, whose PTX the driver translates.
std::string architecture(const Nvrtc& nvrtc, int device) {
  int count = 0;
  nvrtc.arch_count(&count);
  std::vector<int> known(static_cast<size_t>(count));
  if (count > 0) nvrtc.archs(known.data());
  int best = 0;
  for (const int arch : known)
    if (arch <= device) best = std::max(best, arch);
  return (best == device ? "sm_" : "compute_") + std::to_string(best);
}

template <class Result, class Program>
std::string text_of(Program program, Result (*size)(Program, size_t*), Result (*get)(Program, char*)) {
  size_t bytes = 0;
  if (size(program, &bytes) != 0 || bytes == 0) return "";
  std::string text(bytes, '\0');
  return get(program, text.data()) == 0 ? text : "";
}

std::string compile(const Nvrtc& nvrtc, const std::string& source, const std::string& arch, std::string* why) {
  nvrtcProgram program = nullptr;
  nvrtcResult status = nvrtc.create(&program, source.c_str(), "perigee.cu", 0, nullptr, nullptr);
  std::string code;
  if (status == NVRTC_SUCCESS) {
    const std::string target = "--gpu-architecture=" + arch;
    const std::array<const char*, 3> options = {target.c_str(), "--std=c++17", "--fmad=false"};
    status = nvrtc.compile(program, static_cast<int>(options.size()), options.data());
    if (status == NVRTC_SUCCESS)
      code = arch.starts_with("sm_") ? text_of(program, nvrtc.cubin_size, nvrtc.cubin) : text_of(program, nvrtc.ptx_size, nvrtc.ptx);
    else *why = text_of(program, nvrtc.log_size, nvrtc.log);
    nvrtc.destroy(&program);
  }
  if (code.empty() && why->empty()) *why = status == NVRTC_SUCCESS ? "no code" : nvrtc.error(status);
  return code;
}

}  // namespace

std::string CodeCache::user_folder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0') return std::string(cache) + "/perigee/cuda";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') return std::string(home) + "/.cache/perigee/cuda";
  return "";
}

std::string CodeCache::path_of(const std::string& key) const {
  return folder_ + "/" + hex(fnv1a(key)) + hex(fnv1a(key, 0x9e3779b97f4a7c15u)) + ".code";
}

std::string CodeCache::get(const std::string& key, const std::function<std::string()>& compile) const {
  if (folder_.empty()) return compile();
  const std::string path = path_of(key);
  std::string code = read(path, key);
  if (!code.empty()) return code;
  code = compile();
  if (!code.empty()) write(path, key, code);
  return code;
}

// magic, hash of the rest, newline, the key's length, newline, key, code.
std::string CodeCache::read(const std::string& path, const std::string& key) const {
  std::ifstream file(path, std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const std::string_view text = all;
  constexpr size_t kHead = kMagic.size() + 17;
  if (text.size() <= kHead || !text.starts_with(kMagic) || text[kHead - 1] != '\n') return "";
  const std::string_view rest = text.substr(kHead);
  const std::string before = std::to_string(key.size()) + "\n" + key;
  if (text.substr(kMagic.size(), 16) != hex(fnv1a(rest)) || !rest.starts_with(before)) return "";
  std::error_code ignored;
  fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);
  return std::string(rest.substr(before.size()));
}

// A cache that cannot be written costs a compilation next time.
void CodeCache::write(const std::string& path, const std::string& key, const std::string& code) const {
  static std::atomic<uint64_t> number{0};
  std::error_code failed;
  fs::create_directories(folder_, failed);
  const std::string beside = path + "." + std::to_string(::getpid()) + "." + std::to_string(number++);
  const std::string rest = std::to_string(key.size()) + "\n" + key + code;
  {
    std::ofstream file(beside, std::ios::binary);
    file << kMagic << hex(fnv1a(rest)) << '\n' << rest;
    file.close();
    if (!file) return fs::remove(beside, failed), void();
  }
  fs::rename(beside, path, failed);
  if (failed) fs::remove(beside, failed);
  drop_oldest();
}

void CodeCache::drop_oldest() const {
  std::error_code ignored;
  std::vector<std::pair<fs::file_time_type, fs::path>> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_, ignored))
    if (entry.is_regular_file(ignored)) files.emplace_back(entry.last_write_time(ignored), entry.path());
  if (files.size() <= kMostFiles) return;
  std::sort(files.begin(), files.end());
  for (size_t i = 0; i < files.size() / 2; ++i) fs::remove(files[i].second, ignored);
}

std::string compile_cuda(const std::string& source, int major, int minor, std::string* why) {
  static const Nvrtc nvrtc;
  static const CodeCache cache(CodeCache::user_folder());
  const std::string arch = architecture(nvrtc, major * 10 + minor);
  const std::string key = arch + " NVRTC " + cuda_library(CudaLibrary::nvrtc).version + "\n" + source;
  return cache.get(key, [&] { return compile(nvrtc, source, arch, why); });
}

}  // namespace perigee
