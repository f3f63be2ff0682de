#include "lua/job_file.h"

#include <filesystem>

#include "lua/script.h"
#include "src/core/error.h"
#include "src/io/store/etcd.h"
#include "src/io/yaml.h"
#include "src/run/run_folder.h"

namespace perigee {

namespace fs = std::filesystem;

void no_such_file(const std::string& path) {
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

void apply_settings(Job& job, const std::vector<std::string>& settings) {
  for (const std::string& setting : settings) {
    const size_t equals = setting.find('=');
    if (equals == std::string::npos || equals == 0)
      throw Error(ErrorKind::usage,
                  {"--set " + setting, "a setting has the form path=value", "", "", "for example --set optimizer.lr=0.01"});
    const std::string path = setting.substr(0, equals);
    try {
      job.set(path, setting.substr(equals + 1));
    } catch (const Error& error) {
      if (error.parts().where != path) throw;
      Error::Parts parts = error.parts();
      parts.where = "--set " + path;
      throw Error(error.kind(), std::move(parts));
    }
  }
}

// A job that etcd keeps as text: JSON, or YAML. No script: what several people may write is not run.
Job job_in_etcd(const std::string& path) {
  const std::string text = text_in_etcd(path);
  const size_t begin = text.find_first_not_of(" \t\r\n");
  const bool json = begin != std::string::npos && text[begin] == '{';
  return Job(json ? Json::parse(text, path) : parse_yaml(text, path), path, ".");
}

Job load_job(const std::string& path, const std::vector<std::string>& settings, const LuaOptions& options) {
  if (is_etcd_address(path)) {
    Job job = job_in_etcd(path);
    apply_settings(job, settings);
    return job;
  }
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
    throw Error(ErrorKind::usage, {path, "this is no job", "", "a name that ends in .lua, .json, .yaml or .yml",
                                   file.ends_with(".csv") ? "a script names its data: train = pg.data.csv { \"" + path + "\" }" : ""});
  const std::string folder = fs::path(file).parent_path().empty() ? "." : fs::path(file).parent_path().string();
  Job job = [&] {
    if (file != path)  // a run's: its data's paths start elsewhere
      return Job(with_array_files(Job::load(file).json(), path), file, data_folder_of(path));
    if (!lua) return Job::load(file);
    HeldArrays arrays;  // of the script, until the job holds them
    LuaOptions holding = options;
    holding.arrays = &arrays;
    return Job(evaluate_script(file, holding), file, folder);
  }();
  apply_settings(job, settings);
  return job;
}

}  // namespace perigee
