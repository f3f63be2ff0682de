#include "repl/load.h"

#include <filesystem>

#include "lua/script.h"
#include "repl/signals.h"
#include "src/core/error.h"
#include "src/io/file.h"
#include "src/train/run_folder.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void no_such_file(const std::string& path) {
  const fs::path wanted(path);
  const fs::path folder = wanted.parent_path().empty() ? "." : wanted.parent_path();
  std::vector<std::string> names;
  std::error_code status;
  for (const auto& entry : fs::directory_iterator(folder, status))
    if (names.size() < 10000) names.push_back(entry.path().filename().string());
  std::string hint = nearest_hint(wanted.filename().string(), names);
  if (hint.empty() && !fs::exists(folder, status)) hint = "there is no folder '" + folder.string() + "' either";
  throw Error(ErrorKind::usage, {path, "there is no such file", "", "", hint});
}

}  // namespace

bool is_model(const std::string& path) { return path.ends_with(".safetensors"); }

Job load_job(const std::string& path, const std::vector<std::string>& settings) {
  std::error_code status;
  std::string file = path;
  if (fs::is_directory(path, status)) {
    file = path + "/job.json";
    if (!fs::exists(file, status))
      throw Error(ErrorKind::usage, {path, "this is a folder without a job.json", "", "a script, a job or a run folder"});
  }
  if (!fs::exists(file, status)) no_such_file(path);
  const bool lua = file.ends_with(".lua");
  if (!lua && !file.ends_with(".json") && !file.ends_with(".yaml") && !file.ends_with(".yml"))
    throw Error(ErrorKind::usage, {path, "this is no job", "", "a name that ends in .lua, .json, .yaml or .yml"});
  const std::string folder = fs::path(file).parent_path().empty() ? "." : fs::path(file).parent_path().string();
  Job job = file != path ? Job(Job::load(file).json(), file, data_folder_of(path))  // a run's: written elsewhere
            : lua        ? Job(evaluate_script(file, {.interrupt = &stop_requested()}), file, folder)
                         : Job::load(file);
  for (const std::string& setting : settings) {
    const size_t equals = setting.find('=');
    if (equals == std::string::npos || equals == 0)
      throw Error(ErrorKind::usage,
                  {"--set " + setting, "a setting has the form path=value", "", "", "for example --set optimizer.lr=0.01"});
    job.set(setting.substr(0, equals), setting.substr(equals + 1));
  }
  return job;
}

std::string model_path(const std::string& path) {
  std::error_code status;
  if (fs::is_directory(path, status)) {
    for (const char* name : {"/model.safetensors", "/checkpoints/best.safetensors"})
      if (fs::exists(path + name, status)) return path + name;
    throw Error(ErrorKind::usage, {path, "this folder has no model.safetensors", "", "a model, or the folder of a finished run"});
  }
  if (!fs::exists(path, status)) no_such_file(path);
  return path;
}

}  // namespace perigee
