#include "cluster/engines/engine.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "cluster/engines/announced.h"
#include "src/core/error.h"

namespace perigee {

extern const EngineDef engine_openmpi, engine_pmi, engine_pmix, engine_slurm, engine_torch, engine_kubernetes, engine_aws_batch,
    engine_sagemaker, engine_skypilot;

std::span<const EngineDef* const> all_engines() {
  // mpirun inside a Slurm job sets both: what is nearer to us comes first.
  // Kubernetes' manifests name everything themselves; Kubeflow sets torchrun's variables beside them.
  static const EngineDef* const all[] = {&engine_openmpi, &engine_pmi,       &engine_kubernetes, &engine_torch,   &engine_slurm,
                                         &engine_pmix,    &engine_aws_batch, &engine_sagemaker,  &engine_skypilot};
  return all;
}

std::optional<Engine> find_engine(const std::string& wanted, const Environment& environment) {
  if (wanted == "none") return std::nullopt;
  std::vector<std::string> known = {"auto", "none"};
  for (const EngineDef* def : all_engines()) {
    known.emplace_back(def->name);
    if (wanted != "auto" && wanted != def->name) continue;
    if (auto engine = def->find(environment)) return engine;
    if (wanted == def->name)
      throw Error(ErrorKind::usage, {"--engine", "this process was not started by " + wanted, "",
                                     std::string("its variables: ") + def->variables, "leave out --engine, or start it by " + wanted});
  }
  if (wanted != "auto")
    throw Error(ErrorKind::usage, {"--engine", "there is no engine '" + wanted + "'", "", "", nearest_hint(wanted, known)});
  refuse_announcement(environment);
  return std::nullopt;
}

std::optional<int> environment_number(const Environment& environment, const char* name, int low, int high) {
  const char* text = environment(name);
  if (!text || !*text) return std::nullopt;
  int value = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, status] = std::from_chars(text, end, value);
  if (status != std::errc() || stop != end || value < low || value > high)
    throw Error(ErrorKind::usage, {std::string("environment variable ") + name, "is no number of the expected kind",
                                   std::string("'") + text + "'", std::to_string(low) + " to " + std::to_string(high)});
  return value;
}

std::string file_name_of(const std::string& text) {
  std::string name;
  for (const char c : text.substr(0, 100)) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '-';
  return name;
}

// The parent, and when it was started: the number alone may have been another's before.
std::string launcher_mark() {
  const pid_t parent = getppid();
  std::ifstream in("/proc/" + std::to_string(parent) + "/stat");
  std::string line;
  std::getline(in, line);
  const size_t name = line.rfind(')');
  if (name == std::string::npos) return "";
  std::istringstream fields(line.substr(name + 1));
  std::string field;
  for (int index = 3; index <= 22; ++index) fields >> field;
  return std::to_string(parent) + "-" + field;
}

int shared_port(const std::string& text) {
  uint64_t hash = 1469598103934665603u;  // FNV-1a: the same on every machine
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return static_cast<int>(61000 + hash % 4000);
}

void write_meeting(const std::string& file, const Meeting& meeting) {
  const std::string temporary = file + ".new-" + std::to_string(getpid());
  const auto fail = [&](const char* what) {
    const std::string why = std::strerror(errno);
    unlink(temporary.c_str());
    throw Error(ErrorKind::resources,
                {file, what, why, "", "start it in a folder that all machines share, or give every process --secret"});
  };
  unlink(temporary.c_str());
  const int out = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (out < 0) fail("the file where the processes meet cannot be written");
  const std::string text = "perigee 1\n" + meeting.address + "\n" + meeting.key + "\n";
  const bool whole = write(out, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && fsync(out) == 0;
  close(out);
  if (!whole || rename(temporary.c_str(), file.c_str()) != 0) fail("the file where the processes meet cannot be written");
}

std::optional<Meeting> read_meeting(const std::string& file) {
  const int in = open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (in < 0) return std::nullopt;
  struct stat about = {};
  char text[1024] = {};
  const bool sound = fstat(in, &about) == 0 && S_ISREG(about.st_mode);
  const bool ours = sound && about.st_uid == geteuid() && (about.st_mode & 077) == 0;
  const ssize_t size = ours ? read(in, text, sizeof text - 1) : -1;
  close(in);
  if (sound && !ours)
    throw Error(ErrorKind::authentication, {.where = file,
                                            .what = "others can read or have made the file where the processes meet",
                                            .expected = "a file of this user, with mode 0600",
                                            .hint = "remove it, and start the job again"});
  const std::string all(text, size > 0 ? static_cast<size_t>(size) : 0);
  const size_t first = all.find('\n'), second = first == std::string::npos ? first : all.find('\n', first + 1);
  const size_t third = second == std::string::npos ? second : all.find('\n', second + 1);
  if (third == std::string::npos || all.substr(0, first) != "perigee 1") return std::nullopt;
  return Meeting{all.substr(first + 1, second - first - 1), all.substr(second + 1, third - second - 1)};
}

}  // namespace perigee
