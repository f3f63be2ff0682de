// The `perigee` program. `version` is answered before anything else is set up: programs ask for it at their own start.
#include <cstdio>
#include <cstring>

#include "src/api/program.h"

int main(int argc, char** argv) {
  if (argc == 2 && (std::strcmp(argv[1], "version") == 0 || std::strcmp(argv[1], "--version") == 0))
    return std::puts("perigee " PERIGEE_VERSION) < 0;
  return perigee_main(argc, argv);
}
