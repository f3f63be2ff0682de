#include "repl/commands/train/prepare_data.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <optional>

#include "repl/commands/load.h"
#include "src/core/error.h"
#include "src/core/stopwatch.h"
#include "src/data/records/prepare.h"
#include "src/io/file.h"

namespace perigee {
namespace {

constexpr const char* kParts[] = {"train", "validation", "test"};

Json leaf_of(const std::string& folder) { return Json(Json::Object{{"type", "records"}, {"folder", folder}}); }

// On a terminal, how far it is.
std::function<void(int64_t, int64_t)> progress_of(const std::string& folder) {
  if (::isatty(STDERR_FILENO) == 0) return {};
  return [folder, watch = Stopwatch(), told = 0.0](int64_t done, int64_t all) mutable {
    if (watch.seconds() - told < 0.2 && done < all) return;
    told = watch.seconds();
    std::fprintf(stderr, "\r%s: %lld of %lld%s", folder.c_str(), static_cast<long long>(done), static_cast<long long>(all),
                 done == all ? "\n" : "");
  };
}

void write_part(const Json& description, const std::string& where, const std::string& base, const std::string& folder,
                const DataPrepareOptions& options) {
  const SourcePtr source = open_source(Config(description, where, ErrorKind::data), base);
  const records::PreparedRecords made = records::prepare_records(*source, with_fitted(description, source->traits().fitted), folder,
                                                                 {.threads = options.threads,
                                                                  .level = options.level,
                                                                  .shard_records = options.shard_records,
                                                                  .encoded = options.encoded,
                                                                  .progress = progress_of(folder)});
  std::fprintf(stderr, "%s: %lld records in %lld files, %.1f MB", folder.c_str(), static_cast<long long>(made.records),
               static_cast<long long>(made.shards), static_cast<double>(made.bytes) / 1e6);
  if (made.kept > 0) std::fprintf(stderr, "; %lld files were there", static_cast<long long>(made.kept));
  std::fputs("\n", stderr);
}

// {"type": ...} in a file or as it stands; nothing for a job.
std::optional<Json> source_of(const std::string& input) {
  const bool text = input.starts_with("{");
  if (!text && !(input.ends_with(".json") && file_exists(input))) return {};
  try {
    Json json = text ? Json::parse(input, "the source") : Json::parse(as_text(read_file(input, uint64_t{256} << 20)), input);
    if (json.find("type") != nullptr && json.find("network") == nullptr) return json;
  } catch (const Error& error) {
    throw Error(ErrorKind::usage, error.parts());
  }
  return {};
}

// Parts of one job: what is fitted on the training part goes into the others. The job that reads them is written beside.
int prepare_job(const DataPrepareOptions& options) {
  const Job job = load_job(options.input, {});
  Json made = job.canonical();
  Json* data = made.find("data");
  const Json* train = data != nullptr ? data->find("train") : nullptr;
  if (train == nullptr || !train->is_object())
    throw Error(ErrorKind::usage, {.where = options.input, .what = "the job names no training data", .expected = "data.train"});
  const Json fitted = open_source(Config(*train, job.where() + ": data.train", ErrorKind::data), job.folder())->traits().fitted;
  std::vector<std::pair<Json, std::string>> written;  // sources that are stored, and where
  for (const char* part : kParts) {
    Json* description = data->find(part);
    if (description == nullptr || !description->is_object()) continue;
    const records::PreparedPart cut = records::prepared_part(with_fitted(*description, fitted), leaf_of(part), options.encoded);
    std::string folder = part;
    for (const auto& [stored, at] : written)
      if (stored == cut.stored) folder = at;  // two parts of one source that is stored whole
    if (folder == part) {
      write_part(cut.stored, job.where() + ": data." + part, job.folder(), path_in(options.output, part), options);
      written.emplace_back(cut.stored, folder);
    }
    *description =
        folder == part ? cut.around : records::prepared_part(with_fitted(*description, fitted), leaf_of(folder), options.encoded).around;
  }
  const std::string path = path_in(options.output, "job.json");
  write_file(path, as_bytes(made.dump(1) + "\n"));
  std::fprintf(stderr, "%s: the job that reads them\n", path.c_str());
  return 0;
}

}  // namespace

int prepare_data(const DataPrepareOptions& options) {
  const std::optional<Json> source = source_of(options.input);
  if (!source) return prepare_job(options);
  const bool file = !options.input.starts_with("{");
  const std::string base = file ? std::filesystem::path(options.input).parent_path().string() : "";
  write_part(*source, file ? options.input : "the source", base.empty() ? "." : base, options.output, options);
  return 0;
}

}  // namespace perigee
