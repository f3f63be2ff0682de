// An NVRTC whose machine code is the source.
#include <nvrtc.h>

#include <cstring>
#include <string>

#include "tests/cuda/fakes/numbers.h"

using namespace perigee;

namespace {
std::string& text(nvrtcProgram program) { return *reinterpret_cast<std::string*>(program); }
}  // namespace

extern "C" {

nvrtcResult nvrtcVersion(int* major, int* minor) { return *major = 13, *minor = 0, NVRTC_SUCCESS; }
const char* nvrtcGetErrorString(nvrtcResult) { return "NVRTC_ERROR_OF_THE_FAKE"; }
nvrtcResult nvrtcGetNumSupportedArchs(int* count) { return *count = 2, NVRTC_SUCCESS; }
nvrtcResult nvrtcGetSupportedArchs(int* archs) { return archs[0] = 80, archs[1] = 90, NVRTC_SUCCESS; }
nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char* source, const char*, int, const char* const*, const char* const*) {
  return *program = reinterpret_cast<nvrtcProgram>(make_handle<std::string>(source)), NVRTC_SUCCESS;
}
nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) { return drop_handle(&text(*program)), NVRTC_SUCCESS; }
// Source with "#error" does not compile; each compilation leaves a mark of its target in the code.
nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count, const char* const* options) {
  if (text(program).find("#error") != std::string::npos) return NVRTC_ERROR_COMPILATION;
  for (int i = 0; i < count; ++i)
    if (std::strncmp(options[i], "--gpu-architecture=", 19) == 0)
      text(program) = std::string("// ") + (options[i] + 19) + "\n" + text(program);
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram, size_t* bytes) { return *bytes = 7, NVRTC_SUCCESS; }
nvrtcResult nvrtcGetProgramLog(nvrtcProgram, char* to) { return std::memcpy(to, "#error", 7), NVRTC_SUCCESS; }
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t* bytes) { return *bytes = text(program).size() + 1, NVRTC_SUCCESS; }
nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* to) {
  return std::memcpy(to, text(program).c_str(), text(program).size() + 1), NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, size_t* bytes) { return nvrtcGetCUBINSize(program, bytes); }
nvrtcResult nvrtcGetPTX(nvrtcProgram program, char* to) { return nvrtcGetCUBIN(program, to); }

}  // extern "C"
