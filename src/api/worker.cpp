// perigee.h: worker processes of programs that embed Perigee.
#include <cstring>

#include "src/api/perigee.h"
#include "src/api/program.h"

extern "C" {

int perigee_worker_main(int argc, char** argv) noexcept {
  if (argc < 2 || !argv || !argv[1] || std::strcmp(argv[1], "worker") != 0 || std::strcmp(argv[0], "perigee") != 0) return -1;
  return perigee_main(argc, argv);
}
}
