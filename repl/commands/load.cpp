#include "repl/commands/load.h"

#include <filesystem>

#include "lua/job_file.h"
#include "repl/signals.h"
#include "src/core/error.h"
#include "src/io/file.h"
#include "src/run/run_folder.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

}  // namespace

bool is_model(const std::string& path) { return path.ends_with(".safetensors"); }

Job load_job(const std::string& path, const std::vector<std::string>& settings) {
  return load_job(path, settings, {.interrupt = &stop_requested()});
}

std::string model_path(const std::string& path) {
  std::error_code status;
  if (fs::is_directory(path, status)) {
    for (const char* name : {"/model.safetensors", "/checkpoints/best.safetensors"})
      if (fs::exists(path + name, status)) return path + name;
    throw Error(ErrorKind::usage, {path, "this folder has no model.safetensors", "", "a model, or the folder of a finished run",
                                   "the model comes first, then the data"});
  }
  if (!fs::exists(path, status)) no_such_file(path);
  return path;
}

}  // namespace perigee
