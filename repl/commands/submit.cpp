// `perigee submit --slurm 4 models/lenet.lua > job.sh`: prints the file with which a cluster starts the script on so many machines.
#include <CLI/App.hpp>
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <string>

#include "cluster/launch/secret.h"
#include "repl/commands/command.h"
#include "repl/commands/submit/templates.h"
#include "src/core/error.h"
#include "src/core/replace_all.h"
#include "src/io/file.h"

namespace perigee {
namespace {

struct Kind {
  const char* option;
  const char* doc;
  std::string (*text)();
};
constexpr Kind kKinds[] = {
    {"--slurm", "a script for sbatch, for so many nodes", [] { return std::string(kSlurmTemplate); }},
    {"--k8s", "manifests for kubectl, for so many pods: Job, Service, Secret, ConfigMap, volume claim", kubernetes_template},
    {"--jobset", "the same as a JobSet, which jobset.sigs.k8s.io runs", jobset_template},
    {"--trainjob", "the same as a TrainJob of Kubeflow Trainer", trainjob_template},
    {"--aws-batch", "a CloudFormation template of a multi-node job", [] { return std::string(kAwsBatchTemplate); }},
    {"--sagemaker", "what aws sagemaker create-training-job --cli-input-json reads", [] { return std::string(kSageMakerTemplate); }},
    {"--skypilot", "a task of SkyPilot", [] { return std::string(kSkyPilotTemplate); }},
};
constexpr size_t kKindCount = std::size(kKinds);

struct SubmitOptions {
  int64_t counts[kKindCount] = {};
  std::string script, name, image = "perigee:latest", program = "perigee";
  int64_t cpus = 2, memory_mb = 2048;
} submit_options;

void declare_submit(CLI::App& app) {
  for (size_t i = 0; i < kKindCount; ++i)
    app.add_option(kKinds[i].option, submit_options.counts[i], kKinds[i].doc)->check(CLI::Range(int64_t{1}, int64_t{65536}));
  app.add_option("script", submit_options.script, "SCRIPT.lua, JOB.json or JOB.yaml")->required();
  app.add_option("--name", submit_options.name, "of the job there; the default is the script's");
  app.add_option("--image", submit_options.image, "the container's image");
  app.add_option("--program", submit_options.program, "what is called on Slurm's nodes");
  app.add_option("--cpus", submit_options.cpus, "of each process")->check(CLI::Range(int64_t{1}, int64_t{1024}));
  app.add_option("--memory-mb", submit_options.memory_mb, "of each process")->check(CLI::Range(int64_t{16}, int64_t{1} << 26));
  app.footer("perigee submit --slurm 4 models/lenet.lua > job.sh; sbatch job.sh");
}

// The names that Kubernetes takes, as the narrowest of all: small letters, digits and dashes.
std::string name_of(const std::string& text) {
  std::string name;
  for (const char c : text) {
    const auto small = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (std::isalnum(static_cast<unsigned char>(small)) && static_cast<unsigned char>(small) < 128) name += small;
    else if (!name.empty() && name.back() != '-') name += '-';
  }
  name.resize(std::min<size_t>(name.size(), 50));
  while (!name.empty() && name.back() == '-') name.pop_back();
  const std::initializer_list<std::string_view> words = {"null", "true", "false", "yes", "no",
                                                         "on",   "off",  "y",     "n"};  // that YAML takes for something else
  const bool word = std::find(words.begin(), words.end(), name) != words.end();
  if (name.empty() || word || std::isdigit(static_cast<unsigned char>(name[0]))) name.insert(0, "perigee-");
  while (name.back() == '-') name.pop_back();
  return name;
}

[[noreturn]] void refuse_submit(const std::string& where, const std::string& what, const std::string& hint) {
  throw Error(ErrorKind::usage, {where, what, "", "", hint});
}

// A word that needs no quoting in YAML, JSON and shells.
void expect_plain(const std::string& where, const std::string& text) {
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) || std::string_view("._-/:@+").find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (text.empty() || !std::all_of(text.begin(), text.end(), plain))
    refuse_submit(where, "has a letter that the file cannot hold; got '" + text + "'", "use letters, digits and . _ - / : @ +");
}

// The script's lines, four blanks in front of each, as a block of YAML.
std::string submit_indented(const std::string& script) {
  constexpr uint64_t kLimit = 900'000;  // a ConfigMap holds 1 MiB
  expect_there(script);
  const Bytes bytes = read_file(script);
  if (bytes.size() > kLimit) refuse_submit(script, "is too large for a ConfigMap, which holds 1 MiB", "put it into the image");
  std::string text;
  for (const char c : as_text(bytes)) {
    if (text.empty() || text.back() == '\n') text += "    ";
    const auto code = static_cast<unsigned char>(c);
    if ((code < 32 && c != '\n' && c != '\t') || code == 127)
      refuse_submit(script, "is no text", "name a script, or a job in JSON or YAML");
    text += c;
  }
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

int run_submit() {
  const auto chosen =
      std::find_if(std::begin(submit_options.counts), std::end(submit_options.counts), [](int64_t count) { return count > 0; });
  if (chosen == std::end(submit_options.counts) ||
      std::count(std::begin(submit_options.counts), std::end(submit_options.counts), 0) != kKindCount - 1)
    refuse_submit("submit", "one kind of cluster has to be named", "for example `perigee submit --slurm 4 " + submit_options.script + "`");
  std::string text = kKinds[chosen - submit_options.counts].text();
  const std::string file = std::filesystem::path(submit_options.script).filename().string();
  if (submit_options.name.empty()) submit_options.name = name_of(std::filesystem::path(submit_options.script).stem().string());
  else if (name_of(submit_options.name) != submit_options.name)
    refuse_submit("--name", "is no name that clusters take; got '" + submit_options.name + "'",
                  "'" + name_of(submit_options.name) + "' is one");
  for (const auto& [where, word] :
       {std::pair{"the script's name", submit_options.script}, {"--image", submit_options.image}, {"--program", submit_options.program}})
    expect_plain(where, word);
  if (text.find("@TEXT@") != std::string::npos) replace_all(text, "@KEY@", Secret::random().hex());
  for (const auto& [from, to] : {std::pair{"@NAME@", submit_options.name},
                                 {"@N@", std::to_string(*chosen)},
                                 {"@SCRIPT@", submit_options.script},
                                 {"@FILE@", file},
                                 {"@IMAGE@", submit_options.image},
                                 {"@PROGRAM@", submit_options.program},
                                 {"@CPUS@", std::to_string(submit_options.cpus)},
                                 {"@MEMORY_MB@", std::to_string(submit_options.memory_mb)},
                                 {"@MEMORY_GB@", std::to_string(std::max<int64_t>(1, (submit_options.memory_mb + 1023) / 1024))}})
    replace_all(text, from, to);
  if (text.find("@TEXT@") != std::string::npos)
    replace_all(text, "@TEXT@", submit_indented(submit_options.script));  // last: the script may say anything
  return std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0;
}

}  // namespace

extern const Command command_submit;
const Command command_submit{.name = "submit",
                             .doc = "print the file with which a cluster starts a script on many machines",
                             .declare = declare_submit,
                             .run = run_submit};

}  // namespace perigee
