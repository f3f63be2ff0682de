#include <CLI/App.hpp>
#include <cstdio>

#include "repl/commands/command.h"

namespace perigee {
namespace {

void declare_version(CLI::App&) {}

int run_version() { return std::puts("perigee " PERIGEE_VERSION) < 0; }

}  // namespace

extern const Command command_version;
const Command command_version{.name = "version", .doc = "print the version", .declare = declare_version, .run = run_version};

}  // namespace perigee
