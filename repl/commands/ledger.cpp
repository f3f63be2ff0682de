// `perigee ledger`: what a run's ledger proves: that each example counted exactly once per epoch.
#include <CLI/App.hpp>
#include <cinttypes>
#include <cstdio>

#include "cluster/ledger/file_ledger.h"
#include "repl/commands/command.h"
#include "repl/display/display.h"
#include "src/core/error.h"
#include "src/io/file.h"

namespace perigee {
namespace {

struct LedgerOptions {
  std::string run;
  bool json = false;
} ledger_options;

void declare_ledger(CLI::App& app) {
  app.add_option("run", ledger_options.run, "a run folder, or its ledger")->required();
  app.add_flag("--json", ledger_options.json, "print the figures as JSON");
}

LedgerAudit audit_file(const std::string& path) {
  const std::vector<std::byte> bytes = FileLedger::load(path);
  LedgerAuditor auditor;
  LedgerRecord record;
  std::span<const std::byte> rest = bytes;
  while (const size_t length = decode_record(rest, &record)) {
    auditor.add(record);
    rest = rest.subspan(length);
  }
  return auditor.result();
}

void print(const LedgerAudit& found) {
  const auto line = [](const char* name, int64_t value, const char* doc) {
    std::printf("%-11s %14s  %s\n", name, grouped(value).c_str(), doc);
  };
  line("counted", found.counted, "examples in committed rounds");
  line("skipped", found.skipped, "examples given up after three workers failed on them");
  line("duplicates", found.duplicates, "examples that counted more than once in their epoch");
  line("missing", found.missing, "examples of complete epochs that did not count");
  line("epochs", static_cast<int64_t>(found.epochs_complete), "complete");
  line("rounds", found.rounds, "committed");
  line("voided", found.voided, "rounds undone because everybody who held their result was lost");
  if (found.inexact > 0) line("inexact", found.inexact, "examples that may have more or less than their share, at most");
  line("generations", static_cast<int64_t>(found.generations), "memberships");
  if (found.gaps > 0) line("gaps", found.gaps, "rounds that do not follow the one before them");
  std::printf("%s\n", found.sound() ? "every example of a complete epoch counted exactly once or is booked as skipped"
                                    : "the ledger does not add up");
}

int run_ledger() {
  const std::string path = folder_exists(ledger_options.run) ? path_in(ledger_options.run, "ledger") : ledger_options.run;
  if (!file_exists(path))
    throw Error(ErrorKind::usage,
                {.where = ledger_options.run, .what = "no ledger is here", .hint = "runs with --workers, --agents or --listen have one"});
  const LedgerAudit found = audit_file(path);
  if (ledger_options.json) std::printf("%s\n", found.to_json().dump().c_str());
  else print(found);
  return found.sound() ? 0 : static_cast<int>(ErrorKind::cluster);
}

}  // namespace

extern const Command command_ledger;
const Command command_ledger{.name = "ledger",
                             .doc = "show what a run's ledger proves: each example counted exactly once",
                             .declare = declare_ledger,
                             .run = run_ledger};

}  // namespace perigee
