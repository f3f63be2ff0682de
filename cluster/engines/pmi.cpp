// PMI, version 1: mpiexec of MPICH, Intel MPI and MVAPICH (Hydra), and Flux. The launcher listens at a descriptor that each process inherits;
// lines of text go both ways. We say hello, tell or ask where rank 0 is, and take leave before training begins: from then on the launcher
// sees ordinary processes.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "cluster/engines/engine.h"
#include "src/core/error.h"

namespace perigee {
namespace {

constexpr size_t kMaxLine = 4096;
constexpr int kAnswerSeconds = 120;  // the slowest is rank 0, which opens its data before it tells where it is

[[noreturn]] void fail(const std::string& what, const std::string& got = "", const std::string& hint = "") {
  throw Error(ErrorKind::cluster, {"the launcher's PMI_FD", what, got.empty() ? "" : "'" + got.substr(0, 200) + "'", "",
                                   hint.empty() ? "start the job again; --engine none leaves the launcher's answers aside" : hint});
}

// "cmd=get_result rc=0 value=x" -> "x" of "value".
std::string field(const std::string& line, const std::string& name) {
  for (size_t at = 0; at < line.size();) {
    const size_t end = std::min(line.find(' ', at), line.size());
    if (line.compare(at, name.size() + 1, name + "=") == 0) return line.substr(at + name.size() + 1, end - at - name.size() - 1);
    at = end + 1;
  }
  return "";
}

class Channel {
 public:
  Channel(int descriptor, const std::atomic<bool>& stop) : descriptor_(descriptor), stop_(stop) {
    if (fcntl(descriptor, F_SETFD, FD_CLOEXEC) != 0)
      fail(std::strerror(errno), "", "the process between the launcher and this one closed it");
  }
  ~Channel() { close(descriptor_); }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // Sends "cmd=..." and returns the answer, which must be `answer`.
  std::string ask(const std::string& line, const std::string& answer) {
    const std::string text = line + "\n";
    for (size_t sent = 0; sent < text.size();) {
      // A launcher that has hung up is an error here and no signal. Some give a pipe.
      ssize_t count = send(descriptor_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (count < 0 && errno == ENOTSOCK) count = write(descriptor_, text.data() + sent, text.size() - sent);
      if (count < 0 && errno != EINTR) fail(std::strerror(errno));
      if (count > 0) sent += static_cast<size_t>(count);
    }
    const std::string got = read_line();
    const std::string status = field(got, "rc");
    if (field(got, "cmd") != answer || !(status.empty() || status == "0")) fail("expected cmd=" + answer, got);
    return got;
  }

 private:
  std::string read_line() {
    std::string line;
    for (int tenths = 0; line.size() < kMaxLine;) {
      if (stop_) fail("stopped while the processes met");
      pollfd wait = {descriptor_, POLLIN, 0};
      const int ready = poll(&wait, 1, 100);
      if (ready < 0 && errno != EINTR) fail(std::strerror(errno));
      if (ready <= 0) {
        if (++tenths > 10 * kAnswerSeconds)
          fail("not all processes came within " + std::to_string(kAnswerSeconds) + " s", "",
               "start as many as the launcher was told, all of this command");
        continue;
      }
      char letter = 0;  // byte by byte: a few lines in all
      const ssize_t count = read(descriptor_, &letter, 1);
      if (count == 0) fail("the launcher hung up");
      if (count < 0 && errno != EINTR) fail(std::strerror(errno));
      if (count > 0 && letter == '\n') return line;
      if (count > 0) line += letter;
    }
    fail("a line without end", line);
  }

  int descriptor_;
  const std::atomic<bool>& stop_;
};

Meeting exchange(int descriptor, const Meeting* mine, const std::atomic<bool>& stop) {
  Channel channel(descriptor, stop);
  channel.ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init");
  const std::string space = "kvsname=" + field(channel.ask("cmd=get_my_kvsname", "my_kvsname"), "kvsname") + " key=perigee";
  if (mine) channel.ask("cmd=put " + space + " value=" + mine->address + "," + mine->key, "put_result");
  channel.ask("cmd=barrier_in", "barrier_out");
  const std::string told = field(channel.ask("cmd=get " + space, "get_result"), "value");
  channel.ask("cmd=finalize", "finalize_ack");
  const size_t comma = told.rfind(',');
  if (comma == std::string::npos) fail("rank 0 told no address", told);
  return {told.substr(0, comma), told.substr(comma + 1)};
}

std::optional<Engine> find_pmi(const Environment& environment) {
  const auto rank = environment_number(environment, "PMI_RANK", 0, 1 << 20);
  const auto size = environment_number(environment, "PMI_SIZE", 1, 1 << 20);
  const auto descriptor = environment_number(environment, "PMI_FD", 0, 1 << 20);
  const auto local_size = environment_number(environment, "MPI_LOCALNRANKS", 1, 1 << 20);
  if (!rank || !size || !descriptor || *rank >= *size) return std::nullopt;
  const char* step = environment("SLURM_STEP_ID");
  if (step && *step && !local_size) return std::nullopt;  // srun --mpi=pmi2: Slurm says more, and speaks another version
  Engine engine{.name = "pmi", .job = "pmi", .rank = *rank, .size = *size, .local_size = local_size.value_or(1)};
  for (const char* name : {"MPI_LOCALRANKID", "FLUX_TASK_LOCAL_ID"})
    if (const auto local = environment_number(environment, name, 0, 1 << 20)) engine.local_rank = *local;
  engine.exchange = [fd = *descriptor](const Meeting* mine, const std::atomic<bool>& stop) { return exchange(fd, mine, stop); };
  if (engine.size > 1 && local_size)
    engine.advice = "mpiexec ends the whole job when a rank is killed; the same command with --resume goes on from the checkpoint";
  return engine;
}

}  // namespace

extern const EngineDef engine_pmi;
const EngineDef engine_pmi{.name = "pmi",
                           .doc = "mpiexec of MPICH, Intel MPI or MVAPICH (Hydra), and Flux",
                           .variables = "PMI_RANK, PMI_SIZE, PMI_FD",
                           .find = find_pmi};

}  // namespace perigee
