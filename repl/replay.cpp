// `perigee replay`: trains an asynchronous run again from its record, and says whether every result is the same to the last bit.
#include <CLI/App.hpp>
#include <cinttypes>
#include <cstdio>
#include <fstream>

#include "cluster/uv/replay.h"
#include "repl/command.h"
#include "repl/display.h"
#include "src/core/error.h"
#include "src/io/digest.h"
#include "src/io/file.h"

namespace perigee {
namespace {

struct Options {
  std::string run;
} options;

void declare(CLI::App& app) { app.add_option("run", options.run, "a run folder, or its record")->required(); }

int run() {
  const std::string path = folder_exists(options.run) ? path_in(options.run, "record.jsonl") : options.run;
  std::ifstream lines(path, std::ios::binary);
  if (!lines)
    throw Error(ErrorKind::usage, {.where = options.run, .what = "no record is here", .hint = "`perigee train --record` writes one"});
  const RunRecord record = read_record(lines, path);
  const ReplayOutcome outcome = replay(record);
  if (outcome.differs) {
    std::printf("round %" PRId64 " of %s differs: %s, the record has %s\n", *outcome.differs,
                grouped(static_cast<int64_t>(record.rounds.size())).c_str(), hex_digest(outcome.hash).c_str(),
                hex_digest(record.rounds[static_cast<size_t>(*outcome.differs)].hash).c_str());
    return 1;
  }
  std::printf("%s rounds trained again; every result is the recorded one to the last bit, the last %s\n", grouped(outcome.rounds).c_str(),
              hex_digest(outcome.hash).c_str());
  return 0;
}

}  // namespace

extern const Command command_replay;
const Command command_replay{
    .name = "replay", .doc = "train a recorded asynchronous run again and compare every result", .declare = declare, .run = run};

}  // namespace perigee
