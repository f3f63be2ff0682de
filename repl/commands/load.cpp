#include "repl/commands/load.h"

#include <filesystem>

#include "lua/job_file.h"
#include "repl/signals.h"
#include "src/core/error.h"
#include "src/io/file.h"
#include "src/io/store/url.h"
#include "src/model/model_file.h"
#include "src/run/run_folder.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

// Runs lie in runs/ unless their names say otherwise.
[[noreturn]] void no_such_model(const std::string& path) {
  if (path.find('/') == std::string::npos && folder_exists("runs/" + path))
    throw Error(ErrorKind::usage, {path, "there is no such file", "", "", "did you mean 'runs/" + path + "'?"});
  no_such_file(path);
}

}  // namespace

bool is_model(const std::string& path) { return path.ends_with(".safetensors"); }

Job load_job(const std::string& path, const std::vector<std::string>& settings) {
  return load_job(path, settings, {.interrupt = &stop_requested()});
}

std::string model_path(const std::string& path) {
  if (folder_exists(path)) return file_of_model(path, "the model comes first, then the data");
  if (is_store_path(path)) expect_there(path);
  else if (std::error_code status; !fs::exists(path, status)) no_such_model(path);
  return path;
}

}  // namespace perigee
