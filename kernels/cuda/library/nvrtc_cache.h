// CUDA C++ to machine code by NVRTC, once per machine: what was compiled is kept in $XDG_CACHE_HOME/perigee/cuda (or ~/.cache/perigee/cuda),
// named by its content: source, architecture, version of NVRTC. A file that is damaged or of other content is compiled anew. No CUDA header
// is needed to include this.
#pragma once

#include <functional>
#include <string>

namespace perigee {

class CodeCache {
 public:
  static constexpr size_t kMostFiles = 512;  // then the half that was not used for longest goes

  explicit CodeCache(std::string folder) : folder_(std::move(folder)) {}
  static std::string user_folder();  // empty where neither variable is set: nothing is kept

  // The result of `compile`, now or earlier for the same key. Empty code is a failure and is not kept.
  std::string get(const std::string& key, const std::function<std::string()>& compile) const;
  std::string path_of(const std::string& key) const;

 private:
  std::string read(const std::string& path, const std::string& key) const;
  void write(const std::string& path, const std::string& key, const std::string& code) const;
  void drop_oldest() const;

  std::string folder_;
};

// Machine code for a device of compute capability `major`.`minor`; PTX where NVRTC does not know it. Empty, and why, when it does not
// compile. cuda_library_missing(nvrtc) must be null.
std::string compile_cuda(const std::string& source, int major, int minor, std::string* why);

}  // namespace perigee
