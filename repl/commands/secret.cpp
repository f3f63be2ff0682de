// `perigee secret new > cluster.key`: the key that machines of one cluster share.
#include "cluster/launch/secret.h"

#include <sys/stat.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "repl/commands/command.h"
#include "src/core/error.h"

namespace perigee {
namespace {

std::string action;

void declare_secret(CLI::App& app) {
  app.add_option("action", action, "new: print a fresh secret")->required()->check(CLI::IsMember({"new"}));
  app.footer("perigee secret new > cluster.key    then copy it to every machine, with mode 0600");
}

int run_secret() {
  // A shell makes `> cluster.key` readable to all; its mode changes before it holds anything.
  struct stat info {};
  if (fstat(STDOUT_FILENO, &info) == 0 && S_ISREG(info.st_mode) && (info.st_mode & 077) && fchmod(STDOUT_FILENO, 0600) != 0)
    throw Error(ErrorKind::authentication, {.where = "secret new",
                                            .what = "the file stays readable to other users",
                                            .got = std::strerror(errno),
                                            .hint = "write it to another file, after `umask 077`"});
  return std::fputs(Secret::random().text().c_str(), stdout) < 0 || std::fflush(stdout) != 0;
}

}  // namespace

extern const Command command_secret;
const Command command_secret{.name = "secret", .doc = "make a secret for a cluster", .declare = declare_secret, .run = run_secret};

}  // namespace perigee
