#include <CLI/App.hpp>
#include <cstdio>

#include "repl/commands/command.h"

namespace perigee {
namespace {

void declare(CLI::App&) {}

int run() { return std::puts("perigee " PERIGEE_VERSION) < 0; }

}  // namespace

extern const Command command_version;
const Command command_version{.name = "version", .doc = "print the version", .declare = declare, .run = run};

}  // namespace perigee
