// `perigee data`: looks at tables in files, checks them against a schema, writes them in other formats; prepares examples as records.
#include <CLI/App.hpp>
#include <cstdio>
#include <thread>

#include "repl/commands/command.h"
#include "repl/commands/train/prepare_data.h"
#include "src/core/error.h"
#include "src/data/records/partition.h"
#include "src/data/table/analysis/analysis.h"
#include "src/data/table/reading/table_file.h"
#include "src/data/table/spill/run_table.h"
#include "src/data/table/steps.h"
#include "src/data/table/write_table.h"
#include "src/io/file.h"
#include "src/report/table_page.h"

namespace perigee {
namespace {

struct DataOptions {
  std::string action, schema, html, steps, encoding, memory;
  std::vector<std::string> files;
  bool json = false, encoded = false;
  int threads = 0, compress = 0;
  int64_t shard_records = 0, shard_rows = 0;
  int64_t examples = 20;
} data_options;

void declare_data(CLI::App& app) {
  app.add_option("action", data_options.action,
                 "analyse FILE: what each column has; schema FILE: its columns as JSON, to be edited; quality FILE --schema S: what does "
                 "not meet a "
                 "schema; convert IN OUT: writes it as .csv, .tsv or .jsonl (also .gz and .zst), .parquet, .npz or .tar; prepare "
                 "JOB|SOURCE OUT: makes the examples of a job, or of a "
                 "source as JSON, once, and writes records into the folder OUT. The same command goes on with what was begun; "
                 "partition NAME SOURCE: rows that one worker of a cluster will hold (data.at = \"partitions\"), as the job describes them")
      ->required()
      ->check(CLI::IsMember({"analyse", "schema", "quality", "convert", "prepare", "partition"}));
  app.add_option("files", data_options.files,
                 "CSV or JSON Lines, also .gz, .xz and .zst; Parquet, Arrow, SQLite, HDF5, .xlsx, ARFF, SVMLight, .ts, .npz, TFRecord, "
                 "LMDB, tar, a "
                 "folder of MDS; FILE#NAME chooses a table, a sheet or a data set; for convert a second one, to be written; for prepare a "
                 "job and a "
                 "folder")
      ->required();
  app.add_option("--schema", data_options.schema,
                 "columns and how the file is written, as `perigee data schema` prints them; else they are found out");
  app.add_option("--encoding", data_options.encoding, "of CSV and JSON Lines: utf-16, latin-1, windows-1252, ...; the default is UTF-8");
  app.add_option("--steps", data_options.steps,
                 "convert: a file with a list of steps such as [{\"filter\": \"age > 18\"}] (src/data/table/README.md)");
  app.add_option("--html", data_options.html, "analyse: writes a page with histograms into this file");
  app.add_flag("--json", data_options.json, "analyse and quality: the results as JSON");
  app.add_option("--threads", data_options.threads,
                 "how many read; the default is one for each core. Results have the same bits for any number")
      ->check(CLI::Range(1, 64));
  app.add_flag("--encoded", data_options.encoded,
               "prepare: pictures and recordings stay as their files are, and are decoded when they are read");
  app.add_option("--compress", data_options.compress, "prepare: the level of Zstandard, 1 to 19; the default, 0, does not compress")
      ->check(CLI::Range(0, 19));
  app.add_option("--shard-records", data_options.shard_records, "prepare: records in each file; the default is what fits 256 MiB")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  app.add_option("--shard-rows", data_options.shard_rows,
                 "convert: rows of each file, NAME-00000.csv and so on; the default is one file of all")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  app.add_option("--memory", data_options.memory,
                 "convert: what --steps may hold of a table, such as 2GiB, before it goes to a file in TMPDIR (/var/tmp); the default is "
                 "PERIGEE_TABLE_MEMORY, or half of the machine's. Results have the same bits for any amount");
  app.add_option("--examples", data_options.examples, "quality: how many offending values are shown (20)")->check(CLI::Range(0, 10000));
}

Json json_file(const std::string& path) {
  try {
    return Json::parse(as_text(read_file(path, uint64_t{64} << 20)), path);
  } catch (const Error& error) {
    throw Error(ErrorKind::data, error.parts());
  }
}

int data_threads() {
  return data_options.threads > 0 ? data_options.threads : std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 64);
}

tables::TableFile open_table(bool misfits_are_missing = false) {
  tables::ReadOptions reading;
  if (!data_options.schema.empty()) reading = tables::options_of_schema(json_file(data_options.schema), data_options.schema);
  if (!data_options.encoding.empty()) reading.dialect.encoding = data_options.encoding;
  reading.threads = data_threads();
  if (misfits_are_missing) reading.on_misfit = tables::OnMisfit::missing;
  return tables::TableFile(data_options.files[0], std::move(reading));
}

void expect_files(size_t count, const char* usage) {
  if (data_options.files.size() == count) return;
  throw Error(ErrorKind::usage, {.where = "perigee data " + data_options.action,
                                 .what = "the command has another number of files",
                                 .got = std::to_string(data_options.files.size()),
                                 .expected = usage});
}

int analyse() {
  expect_files(1, "perigee data analyse FILE");
  tables::TableFile file = open_table();
  const Json found = tables::analyse(file, data_options.files[0]);
  std::fputs((data_options.json ? found.dump(1) + "\n" : tables::analysis_text(found)).c_str(), stdout);
  if (!data_options.html.empty()) write_file(data_options.html, as_bytes(table_page(found)));
  return 0;
}

int quality() {
  expect_files(1, "perigee data quality FILE --schema SCHEMA");
  if (data_options.schema.empty())
    throw Error(ErrorKind::usage, {.where = "perigee data quality",
                                   .what = "there is no schema to check against",
                                   .expected = "--schema FILE",
                                   .hint = "`perigee data schema " + data_options.files[0] + " > schema.json` writes one to edit"});
  tables::TableFile file = open_table(true);
  const Json found = tables::check_quality(file, data_options.files[0], static_cast<size_t>(data_options.examples));
  std::fputs((data_options.json ? found.dump(1) + "\n" : tables::quality_text(found)).c_str(), stdout);
  return found.find("invalid")->as_int() == 0 ? 0 : static_cast<int>(ErrorKind::data);
}

int convert() {
  expect_files(2, "perigee data convert IN OUT");
  tables::TableFile file = open_table();
  const tables::TableRoom room =
      tables::room_for_tables(data_options.memory.empty() ? 0 : tables::table_memory_of(data_options.memory, "--memory"));
  tables::Steps steps(data_options.steps.empty() ? Json() : json_file(data_options.steps), data_options.steps, ".", {}, room);
  const bool streams = steps.by_rows() && steps.is_fitted();
  int64_t rows = 0;
  for (bool whole = false; !whole;) {
    const auto writer = tables::write_table(data_options.files[1], data_options.shard_rows);
    rows = 0;
    const auto write = [&](const tables::Frame& frame) {
      rows += frame.rows;
      writer->add(frame);
    };
    if (!streams) {
      whole = tables::run_table(file, steps, room, false, write);
    } else {
      whole = file.each([](tables::TableFile::Chunk&) {},
                        [&](tables::TableFile::Chunk& chunk) {
                          steps.apply(chunk.block.frame);  // patterns are for one thread at a time
                          write(chunk.block.frame);
                        });
    }
    if (whole) writer->finish();
  }
  std::fprintf(stderr, "%s: %lld rows\n", data_options.files[1].c_str(), static_cast<long long>(rows));
  return 0;
}

// A source that a worker will hold under --partition NAME=SOURCE, as the job names it.
int partition() {
  expect_files(2, "perigee data partition NAME SOURCE");
  const std::string& given = data_options.files[1];
  const Json description = given.starts_with("{") ? Json::parse(given, "the source") : json_file(given);
  const SourcePtr source = open_source(Config(description, "the source", ErrorKind::data), ".");
  std::printf("%s\n", describe_partition(data_options.files[0], *source).dump().c_str());
  return 0;
}

int run_data() {
  if (data_options.action == "analyse") return analyse();
  if (data_options.action == "quality") return quality();
  if (data_options.action == "convert") return convert();
  if (data_options.action == "partition") return partition();
  if (data_options.action == "prepare") {
    expect_files(2, "perigee data prepare JOB OUT");
    return prepare_data({.input = data_options.files[0],
                         .output = data_options.files[1],
                         .threads = data_threads(),
                         .level = data_options.compress,
                         .shard_records = data_options.shard_records,
                         .encoded = data_options.encoded});
  }
  expect_files(1, "perigee data schema FILE");
  const tables::TableFile file = open_table();
  std::printf("%s\n", tables::schema_json(file.schema(), file.is_json() ? nullptr : &file.dialect()).dump(1).c_str());
  return 0;
}

}  // namespace

extern const Command command_data;
const Command command_data{.name = "data",
                           .doc = "look at tables in files, check and convert them; prepare examples as records",
                           .declare = declare_data,
                           .run = run_data};

}  // namespace perigee
