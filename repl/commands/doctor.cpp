// `perigee doctor`: what was found on this machine, what is wrong, and how to mend it.
#include <dlfcn.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "cluster/engines/announced.h"
#include "repl/commands/command.h"
#include "src/core/cores.h"
#include "src/core/error.h"
#include "src/device/cuda_module.h"
#include "src/device/gpu.h"
#include "src/graph/plan.h"
#include "src/io/file.h"

namespace perigee {
namespace {

int problems = 0;

void declare_doctor(CLI::App&) {}

void good(const char* what, const std::string& found) { std::printf("  ok       %-12s %s\n", what, found.c_str()); }
void none(const char* what, const std::string& found) { std::printf("  none     %-12s %s\n", what, found.c_str()); }
void bad(const char* what, const std::string& found, const std::string& mend) {
  std::printf("  problem  %-12s %s\n                        %s\n", what, found.c_str(), mend.c_str());
  ++problems;
}

std::string first_value(const char* file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(key))
      if (const size_t colon = line.find(':'); colon != std::string::npos) return line.substr(line.find_first_not_of(" \t", colon + 1));
  return "";
}

void processor() {
  const std::string name = first_value("/proc/cpuinfo", "model name"), flags = " " + first_value("/proc/cpuinfo", "flags") + " ";
  std::string found;
  for (const char* flag : {"sse4_2", "avx2", "fma", "avx512f", "avx512_bf16", "avx512_vnni", "amx_tile"})
    if (flags.find(std::string(" ") + flag + " ") != std::string::npos) found += (found.empty() ? "" : " ") + std::string(flag);
  const int all = static_cast<int>(std::thread::hardware_concurrency()), ours = available_cores();
  good("CPU", (name.empty() ? "unknown" : name) + ", " + std::to_string(all) + " threads" +
                  (ours < all ? ", of which this process may use " + std::to_string(ours) : ""));
  good("instructions", found + "; kernels used: " + isa_name(host_isa()));
  if (const char* cap = std::getenv("PERIGEE_ISA")) none("PERIGEE_ISA", std::string("caps the instruction set at ") + cap);
}

void memory() {
  const std::string available = first_value("/proc/meminfo", "MemAvailable");
  const long kib = std::atol(available.c_str());
  std::string text = std::to_string(kib / 1024) + " MiB available";
  if (memory_limit() > 0) text += ", a limit of " + std::to_string(memory_limit() >> 20) + " MiB for this control group";
  if (kib < 512 * 1024) bad("memory", text, "close other programs; a smaller --batch needs less");
  else good("memory", text);
}

// A library that is loaded on first use. `version`: a symbol to report, or null.
bool library(const char* what, std::initializer_list<const char*> names, const char* purpose, const char* package) {
  for (const char* name : names)
    if (void* handle = dlopen(name, RTLD_LAZY | RTLD_LOCAL)) {
      std::string text = name;
      if (auto* config = reinterpret_cast<const char* (*)()>(dlsym(handle, "openblas_get_config")))
        text += std::string(" (") + config() + ")";
      if (auto* core = reinterpret_cast<const char* (*)()>(dlsym(handle, "openblas_get_corename")))
        text += std::string(", kernel ") + core();
      if (auto* curl = reinterpret_cast<const char* (*)()>(dlsym(handle, "curl_version"))) text = std::string(curl()).substr(0, 60);
      good(what, text);
      return true;
    }
  none(what, std::string("not found; needed for ") + purpose + " only: apt-get install " + package);
  return false;
}

// The module loads without a driver too; then CUDA's runtime says what is missing.
void cuda() {
  std::string why;
  const CudaModule* module = cuda_module(&why);
  if (module == nullptr) return none("CUDA kernels", why + "; build with nvcc (meson configure -Dcuda=enabled)");
  good("CUDA kernels", "compiled for sm_80, sm_90 and later");
  bool missing = false;
  for (const CudaLibrary library : kCudaLibraries) {
    const CudaLibraryInfo& info = module->library(library);
    if (info.why == nullptr) good(info.name, std::string(info.version) + ", " + info.path);
    else none(info.name, std::string(info.why) + "; for " + info.serves), missing |= library != CudaLibrary::driver;
  }
  if (missing) none("", "PERIGEE_CUDA_LIBRARIES=FOLDER:... says where else they are, as Python's site-packages/nvidia/*/lib");
  int count = 0, driver = 0, runtime = 0;
  const auto version = [](int number) { return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10); };
  if (module->versions(&driver, &runtime) == 0 && driver > 0 && driver / 1000 < runtime / 1000)
    return bad("driver", "for CUDA " + version(driver) + ", where this build wants " + version(runtime / 1000 * 1000),
               "update the NVIDIA driver, or build with an older toolkit");
  const auto mend = [](int status) { return *Gpu::hint(status) != '\0' ? Gpu::hint(status) : "nvidia-smi may say more"; };
  if (const int status = module->device_count(&count); driver == 0) return none("GPU", "no NVIDIA driver, which GPUs of NVIDIA need");
  else if (status == Gpu::kNoDevice || (status == 0 && count == 0)) return none("GPU", "the driver knows none");
  else if (status != 0) return bad("GPU", module->message(status), mend(status));
  for (int index = 0; index < count; ++index) {
    CudaDevice device;
    std::string text = std::to_string(index) + ": ";
    if (const int status = module->device(index, &device); status != 0) {
      bad("GPU", text + module->message(status), mend(status));
      continue;
    }
    text += Gpu::text(device) + ", " + std::to_string(device.memory_bytes >> 30) + " GiB";
    if (const char* old = Gpu::too_old(device)) bad("GPU", text, old);
    else good("GPU", text);
  }
}

void data_sets() {
  const char* shared = std::getenv("PERIGEE_DATA");
  if (!shared)
    none("PERIGEE_DATA", "not set; data sets are looked for in " +
                             (user_cache_folder().empty() ? std::string("no folder (HOME is not set)") : user_cache_folder()));
  else if (!folder_exists(shared))
    bad("PERIGEE_DATA", std::string(shared) + " is no folder", "set it to the folder that holds mnist/, cifar10/, or unset it");
  else good("PERIGEE_DATA", shared);
  for (const char* name : {"mnist", "cifar10"}) {
    std::string where;
    for (const std::string& folder : {shared ? std::string(shared) : std::string(), user_cache_folder()})
      if (where.empty() && !folder.empty() && folder_exists(folder + "/" + name)) where = folder + "/" + name;
    if (where.empty()) none(name, "not here; it is downloaded when it is first used");
    else good(name, where);
  }
}

void folders() {
  std::error_code status;
  const std::string here = std::filesystem::current_path(status).string();
  if (access(here.c_str(), W_OK) != 0) bad("run folders", here + " cannot be written", "change to another folder, or give --out DIR");
  struct statvfs space = {};
  if (statvfs(here.c_str(), &space) == 0) {
    const double gib = static_cast<double>(space.f_bavail) * static_cast<double>(space.f_frsize) / (1 << 30);
    char text[64];
    std::snprintf(text, sizeof text, "%.1f GiB free in %.200s", gib, "this folder");
    if (gib < 0.2) bad("disk", text, "make room, or give --out DIR on another disk");
    else good("disk", text);
  }
}

// Which launcher has started this process, and how it is known.
void engine() {
  const Environment environment = [](const char* name) -> const char* { return std::getenv(name); };
  std::string known, hint;
  try {
    for (const EngineDef* def : all_engines()) {
      known += (known.empty() ? "" : ", ") + std::string(def->name);
      const std::optional<Engine> found = def->find(environment);
      if (!found) continue;
      good("engine", found->name + " (" + def->doc + "): process " + std::to_string(found->rank) + " of " + std::to_string(found->size) +
                         ", by " + def->variables);
      return none("", "rank 0 is found " + (found->exchange                ? std::string("through the launcher itself")
                                            : !found->meeting_file.empty() ? "by " + found->meeting_file
                                                                           : "at " + found->coordinator + ", with --secret FILE"));
    }
    const std::string announced = unclaimed_announcement(environment, &hint);
    if (!announced.empty()) return bad("engine", announced + " tells of several processes, but not which of them this is", hint);
    none("engine", "this process was started by none of " + known);
  } catch (const Error& error) {
    bad("engine", error.what(), "mend the variable, or train with --engine none");
  }
}

int run_doctor() {
  std::printf("perigee %s\n", PERIGEE_VERSION);
  processor();
  memory();
  library("oneDNN", {"libdnnl.so.3", "libdnnl.so.2"}, "comparing kernels", "libdnnl2");
  library("LAPACK", {"libopenblas.so.0", "liblapack.so.3"}, "linear algebra", "libopenblas0-openmp");
  library("curl", {"libcurl.so.4", "libcurl-gnutls.so.4"}, "downloads, s3://, hdfs://, https://, sftp://", "libcurl4");
  library("JPEG", {"libjpeg.so.62", "libjpeg.so.8", "libturbojpeg.so.0"}, "image data", "libjpeg62-turbo");
  library("PNG", {"libpng16.so.16"}, "image data", "libpng16-16");
  library("WebP", {"libwebp.so.7"}, "image data", "libwebp7");
  library("TIFF", {"libtiff.so.6"}, "image data", "libtiff6");
  library("stemmer", {"libstemmer.so.0d", "libstemmer.so.0"}, "stems of words", "libstemmer0d");
  library("Unicode", {"libutf8proc.so.3", "libutf8proc.so.2"}, "tokenizers of text beyond ASCII", "libutf8proc2");
  library("expressions", {"libpcre2-8.so.0"}, "tokenizers with regular expressions", "libpcre2-8-0");
  library("libsndfile", {"libsndfile.so.1"}, "recordings other than plain WAV", "libsndfile1");
  cuda();
  data_sets();
  folders();
  engine();
  std::printf(problems == 0 ? "nothing is wrong\n" : "%d problems\n", problems);
  return problems == 0 ? 0 : 7;
}

}  // namespace

extern const Command command_doctor;
const Command command_doctor{
    .name = "doctor", .doc = "show what was found on this machine and what is wrong with it", .declare = declare_doctor, .run = run_doctor};

}  // namespace perigee
