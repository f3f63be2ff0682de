#include "cluster/ledger/run_record.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>

#include "cluster/ledger/ranges.h"
#include "src/core/config.h"
#include "src/core/error.h"
#include "src/core/warning.h"
#include "src/io/digest.h"
#include "src/io/file.h"

namespace perigee {
namespace {

constexpr int64_t kFormat = 1;
constexpr int64_t kMostExamples = int64_t{1} << 52, kMostPerStep = int64_t{1} << 40, kMostThreads = 4096;

std::string line_of(Json::Object fields) { return Json(std::move(fields)).dump() + "\n"; }

uint64_t run_record_hash_of(const Config& line) {
  const std::string text = line.string("hash");
  uint64_t hash = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), hash, 16);
  if (text.size() != 16 || error != std::errc() || end != text.data() + text.size() || hash == 0)
    line.fail("hash", "is no hash", text.substr(0, 40), "16 hexadecimal digits");
  return hash;
}

const Json::Array& list_in(const Config& line, const char* key, size_t most) {
  const Json* list = line.raw(key);
  if (!list || !list->is_array() || list->as_array().empty() || list->as_array().size() > most)
    line.fail(key, "is no list", "", "1 to " + std::to_string(most) + " entries");
  return list->as_array();
}

RecordedShare read_share(const Config& share) {
  RecordedShare out{.worker = static_cast<WorkerId>(share.integer_in("worker", 1, UINT32_MAX)),
                    .counted = static_cast<uint64_t>(share.integer_in("counted", 0, kMostExamples)),
                    .base = share.integer_in("base", -1, kMostExamples),
                    .examples_before = share.integer_in("before", 0, kMostExamples),
                    .examples_per_step = share.integer_in("per_step", 1, kMostPerStep),
                    .threads = static_cast<uint32_t>(share.integer_in("threads", 1, kMostThreads)),
                    .isa = share.string("isa")};
  for (const Json& range : list_in(share, "ranges", kMaxRanges)) {
    const bool three = range.is_array() && range.as_array().size() == 3 &&
                       std::all_of(range.as_array().begin(), range.as_array().end(),
                                   [](const Json& n) { return n.is_int() && n.as_int() >= 0 && n.as_int() <= kMostExamples; });
    if (!three || range.as_array()[2].as_int() == 0) share.fail("ranges", "holds something else", "", "[epoch, begin, count] each");
    out.ranges.push_back({static_cast<uint64_t>(range.as_array()[0].as_int()), range.as_array()[1].as_int(), range.as_array()[2].as_int()});
  }
  if (!disjoint(out.ranges)) share.fail("ranges", "overlap");
  share.reject_unread();
  return out;
}

RecordedRound read_round(const Config& line, const RunRecord& record) {
  const auto next = static_cast<int64_t>(record.rounds.size());
  RecordedRound out{.round = line.integer_in("round", 0, kMostExamples),
                    .hash = run_record_hash_of(line),
                    .examples_after = line.integer_in("examples", 1, kMostExamples),
                    .workers = line.integer_in("workers", 1, static_cast<int64_t>(kMaxWorkers))};
  if (out.round != next) line.fail("round", "does not follow the one before", std::to_string(out.round), std::to_string(next));
  int64_t examples = next > 0 ? record.rounds.back().examples_after : 0;
  for (const Json& share : list_in(line, "merged", kMaxWorkers)) {
    out.shares.push_back(read_share(line.element(share, "merged")));
    const WorkerId worker = out.shares.back().worker;
    if (std::count_if(out.shares.begin(), out.shares.end(), [&](const RecordedShare& s) { return s.worker == worker; }) > 1)
      line.fail("merged", "has two shares of one worker", std::to_string(worker), "one of each");
    if (out.shares.back().base >= next)
      line.fail("merged", "has a base that is not there yet", std::to_string(out.shares.back().base),
                "at most " + std::to_string(next - 1));
    for (const Range& range : out.shares.back().ranges) examples = std::min(examples + range.count, kMostExamples);
  }
  if (out.examples_after != examples)
    line.fail("examples", "is not what the shares come to", std::to_string(out.examples_after), std::to_string(examples));
  line.reject_unread();
  return out;
}

// A process that goes on may know kernels for other calls beside: its machine may have measured them meanwhile. Those of the record are its own.
bool chooses_alike(const Json* known, const Json* later) {
  if (!known || !later || !known->is_string() || !later->is_string()) return false;
  try {
    const Json wanted = Json::parse(known->as_string(), "tuning"), all = Json::parse(later->as_string(), "tuning");
    return wanted.is_object() && std::all_of(wanted.as_object().begin(), wanted.as_object().end(), [&](const auto& choice) {
             const Json* same = all.find(choice.first);
             return same && *same == choice.second;
           });
  } catch (const Error&) {
    return false;  // no table
  }
}

bool goes_on_with(Json beginning, Json later) {
  if (chooses_alike(beginning.find("tuning"), later.find("tuning"))) beginning.erase("tuning"), later.erase("tuning");
  return beginning == later;
}

// Each process of the server begins with this; one that goes on with a run says the same as the one before.
void read_beginning(const Json& json, const Config& line, Json* beginning, RunRecord* record) {
  if (!beginning->is_null()) {
    if (!goes_on_with(*beginning, json))
      line.fail("record", "goes on with another job, version or machine than it began with", "", "the same",
                "record it as a run of its own");
    return;
  }
  line.integer_in("record", kFormat, kFormat);
  record->version = line.string("version");
  record->job = line.object("job").json();
  record->folder = line.string("folder");
  record->tuning = line.string("tuning");
  record->threads = line.integer_in("threads", 1, kMostThreads);
  record->isa = line.string("isa");
  line.reject_unread();
  *beginning = json;
}

// Work after that round became void.
void restore(const Config& line, RunRecord* record) {
  const int64_t round = line.integer_in("restored", -1, kMostExamples);
  const uint64_t hash = run_record_hash_of(line);
  line.reject_unread();
  if (round >= static_cast<int64_t>(record->rounds.size()))
    line.fail("restored", "is of a round that the record has not got", std::to_string(round),
              "at most " + std::to_string(static_cast<int64_t>(record->rounds.size()) - 1),
              "the run went on from a checkpoint that was made without --record");
  record->rounds.resize(static_cast<size_t>(round + 1));
  if (round >= 0 && record->rounds.back().hash != hash) line.fail("hash", "is not that of the round", hex_digest(hash));
}

// A worker's contributions are counted from its beginning, one by one.
void check_counts(const RunRecord& record, const std::string& where) {
  std::map<WorkerId, uint64_t> next;
  for (const RecordedRound& round : record.rounds)
    for (const RecordedShare& share : round.shares) {
      if (share.counted != 0 && share.counted != next[share.worker])
        throw Error(ErrorKind::data, {.where = where + ": round " + std::to_string(round.round),
                                      .what = "lacks what worker " + std::to_string(share.worker) + " contributed before",
                                      .got = std::to_string(next[share.worker]) + " contributions",
                                      .expected = std::to_string(share.counted)});
      next[share.worker] = share.counted + 1;
    }
}

}  // namespace

std::string record_begin(const Welcome& welcome, const std::string& isa) {
  return line_of({{"record", kFormat},
                  {"version", PERIGEE_VERSION},
                  {"job", Json::parse(welcome.job, "job")},
                  {"folder", welcome.folder},
                  {"tuning", welcome.tuning},
                  {"threads", int64_t{welcome.threads}},
                  {"isa", isa}});
}

std::string record_restored(int64_t round, uint64_t hash) { return line_of({{"restored", round}, {"hash", hex_digest(hash)}}); }

std::string record_round(int64_t round, uint64_t hash, int64_t examples_after, int64_t workers, const std::vector<Arrival>& merged) {
  Json shares = Json::array();
  for (const Arrival& arrival : merged) {
    const Push& push = arrival.push;
    Json ranges = Json::array();
    for (const Range& range : push.ranges) {
      Json three = Json::array();
      three.push(static_cast<int64_t>(range.epoch)), three.push(range.begin), three.push(range.count);
      ranges.push(std::move(three));
    }
    shares.push(Json(Json::Object{{"worker", int64_t{arrival.from}},
                                  {"counted", static_cast<int64_t>(push.counted)},
                                  {"base", push.base},
                                  {"before", push.examples_before},
                                  {"per_step", push.examples_per_step},
                                  {"threads", int64_t{push.threads}},
                                  {"isa", push.isa},
                                  {"ranges", std::move(ranges)}}));
  }
  return line_of(
      {{"round", round}, {"hash", hex_digest(hash)}, {"examples", examples_after}, {"workers", workers}, {"merged", std::move(shares)}});
}

void for_each_record_line(std::string_view text, const std::string& where, const std::function<void(const Config& line)>& take) {
  for (int64_t number = 1;; ++number) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) break;  // the end, or torn
    const std::string place = where + ":" + std::to_string(number);
    Json json;
    try {
      json = Json::parse(text.substr(0, end), place);
    } catch (const Error& error) {
      throw Error(ErrorKind::data, {.where = place, .what = error.what()});
    }
    text.remove_prefix(end + 1);
    const Config line(json, place, ErrorKind::data);
    take(line);
  }
}

RunRecord read_record(std::string_view text, const std::string& where) {
  RunRecord record;
  Json beginning;
  for_each_record_line(text, where, [&](const Config& line) {
    if (beginning.is_null() || line.has("record")) read_beginning(line.json(), line, &beginning, &record);
    else if (line.has("restored")) restore(line, &record);
    else record.rounds.push_back(read_round(line, record));
  });
  if (beginning.is_null())
    throw Error(ErrorKind::data,
                {.where = where, .what = "is no record of a run", .hint = "`perigee train --record` writes one, of an asynchronous run"});
  check_counts(record, where);
  return record;
}

RecordFile::RecordFile(const std::string& path) : path_(path) {
  if (file_exists(path)) {
    const MappedFile there(path);
    const std::string_view text = as_text(there.bytes());
    std::error_code status;
    std::filesystem::resize_file(path, text.rfind('\n') + 1, status);  // npos + 1 is 0
    if (status) throw Error(ErrorKind::resources, {.where = path, .what = "the record cannot be written", .got = status.message()});
  }
  file_ = std::fopen(path.c_str(), "ae");
  if (!file_) throw Error(ErrorKind::resources, {.where = path, .what = "the record cannot be written"});
}

RecordFile::~RecordFile() { std::fclose(file_); }

void RecordFile::append(const std::string& line) {
  if (failed_) return;
  if (std::fwrite(line.data(), 1, line.size(), file_) == line.size() && std::fflush(file_) == 0) return;
  failed_ = true;
  warn("the record " + path_ + " could not be written: this run cannot be replayed");
}

}  // namespace perigee
