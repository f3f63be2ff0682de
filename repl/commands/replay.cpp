// `perigee replay`: trains a run that depended on time again from its record, and says whether every result is the same to the last bit.
#include <CLI/App.hpp>
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <map>

#include "cluster/ledger/file_ledger.h"
#include "cluster/ledger/ranges.h"
#include "cluster/replica/replay.h"
#include "cluster/replica/replay_workers.h"
#include "repl/commands/command.h"
#include "repl/display/display.h"
#include "src/core/error.h"
#include "src/data/stored_arrays.h"
#include "src/io/digest.h"
#include "src/io/file.h"
#include "src/run/run_folder.h"

namespace perigee {
namespace {

struct ReplayOptions {
  std::string run, out;
} replay_options;

void declare_replay(CLI::App& app) {
  app.add_option("run", replay_options.run, "a run folder, or its record")->required();
  app.add_option("--out", replay_options.out, "write what was trained again, as a model file");
}

std::map<int64_t, uint64_t> booked_rounds(const std::string& path) {
  std::map<int64_t, uint64_t> booked;
  const std::vector<std::byte> bytes = FileLedger::load(path);
  LedgerRecord entry;
  std::span<const std::byte> rest = bytes;
  while (const size_t length = decode_record(rest, &entry)) {
    if (entry.kind == LedgerRecord::Kind::round) booked[entry.round] = entry.hash;
    if (entry.kind == LedgerRecord::Kind::voided) booked.erase(booked.upper_bound(entry.round), booked.end());
    rest = rest.subspan(length);
  }
  return booked;
}

// Checks the record against the coordinator's ledger, and drops rounds that the server made as the run ended: they are in no result.
void follow_ledger(const std::string& path, RunRecord* record) {
  const std::map<int64_t, uint64_t> booked = booked_rounds(path);
  for (const auto& [round, hash] : booked) {
    const bool there = round < static_cast<int64_t>(record->rounds.size());
    const std::string got = there ? hex_digest(record->rounds[static_cast<size_t>(round)].hash) : "no such round";
    if (got != hex_digest(hash))
      throw Error(ErrorKind::data, {.where = path + ": round " + std::to_string(round),
                                    .what = "is not what the record tells",
                                    .got = got,
                                    .expected = hex_digest(hash),
                                    .hint = there ? "" : "the run went on without --record"});
  }
  record->rounds.resize(booked.empty() ? 0 : static_cast<size_t>(booked.rbegin()->first + 1));
}

void print_difference(const RunRecord& record, const ReplayOutcome& outcome) {
  const RecordedRound& round = record.rounds[static_cast<size_t>(*outcome.differs)];
  std::printf("round %" PRId64 " of %s differs: %s, recorded is %s\nit is made of", round.round,
              grouped(static_cast<int64_t>(record.rounds.size())).c_str(), hex_digest(outcome.hash).c_str(),
              hex_digest(round.hash).c_str());
  for (const RecordedShare& share : round.shares)
    std::printf(" %s examples of worker %u from round %" PRId64 " on%s", grouped(examples_of(share.ranges)).c_str(), share.worker,
                share.base, &share == &round.shares.back() ? "\n" : ",");
  if (record.version != PERIGEE_VERSION)
    std::printf("it was recorded by version %s; this is %s\n", record.version.c_str(), PERIGEE_VERSION);
}

int print_outcome(const ReplayOutcome& outcome) {
  std::printf("%s rounds trained again; every result is the recorded one to the last bit, the last %s\n", grouped(outcome.rounds).c_str(),
              hex_digest(outcome.hash).c_str());
  return 0;
}

// Replays workers that trained while a round was on its way: there is a file of each of their processes.
int run_workers(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".jsonl") files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  std::vector<TrainerLog> logs;
  for (const std::string& file : files) {
    const Bytes text = read_file(file);
    if (text.empty()) continue;  // killed before its first line
    logs.push_back(read_trainer_log(as_text(text), file));
    logs.back().job = with_array_files(logs.back().job, replay_options.run);
  }
  const ReplayOutcome outcome = replay_workers(logs, booked_rounds(path_in(replay_options.run, "ledger")));
  if (!replay_options.out.empty() && outcome.model) write_file(replay_options.out, *outcome.model);
  if (!outcome.differs) return print_outcome(outcome);
  std::printf("round %" PRId64 " differs: %s\n", *outcome.differs, hex_digest(outcome.hash).c_str());
  if (!logs.empty() && logs[0].version != PERIGEE_VERSION)
    std::printf("it was recorded by version %s; this is %s\n", logs[0].version.c_str(), PERIGEE_VERSION);
  return 1;
}

int run_replay() {
  const bool folder = folder_exists(replay_options.run);
  if (const std::string record = path_in(replay_options.run, "record"); folder && folder_exists(record)) return run_workers(record);
  const std::string path = folder ? path_in(replay_options.run, "record.jsonl") : replay_options.run;
  if (!file_exists(path))
    throw Error(ErrorKind::usage,
                {.where = replay_options.run, .what = "no record is here", .hint = "`perigee train --record` writes one"});
  const Bytes text = read_file(path);
  RunRecord record = read_record(as_text(text), path);
  record.job = with_array_files(record.job, run_of_file(path));  // wherever the folder was when it was recorded
  if (const std::string ledger = path_in(replay_options.run, "ledger"); folder && file_exists(ledger)) follow_ledger(ledger, &record);
  const ReplayOutcome outcome = replay(record);
  if (!replay_options.out.empty() && outcome.model) write_file(replay_options.out, *outcome.model);
  if (outcome.differs) {
    print_difference(record, outcome);
    return 1;
  }
  return print_outcome(outcome);
}

}  // namespace

extern const Command command_replay;
const Command command_replay{
    .name = "replay", .doc = "train a recorded run again and compare every result", .declare = declare_replay, .run = run_replay};

}  // namespace perigee
