#include "cluster/run_record.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>

#include "cluster/ranges.h"
#include "src/core/config.h"
#include "src/core/error.h"
#include "src/core/warning.h"
#include "src/io/digest.h"

namespace perigee {
namespace {

constexpr int64_t kFormat = 1;
constexpr size_t kMaxLine = size_t{64} << 20;
constexpr int64_t kMostExamples = int64_t{1} << 52;

std::string line_of(Json::Object fields) { return Json(std::move(fields)).dump() + "\n"; }

uint64_t hash_of(const Config& line) {
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
                    .examples_per_step = share.integer_in("per_step", 1, kMostExamples),
                    .threads = static_cast<uint32_t>(share.integer_in("threads", 1, 65536)),
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

RecordedRound read_round(const Config& line) {
  RecordedRound out{.round = line.integer_in("round", 0, kMostExamples),
                    .hash = hash_of(line),
                    .examples_after = line.integer_in("examples", 1, kMostExamples),
                    .workers = line.integer_in("workers", 1, static_cast<int64_t>(kMaxWorkers))};
  for (const Json& share : list_in(line, "merged", kMaxWorkers)) out.shares.push_back(read_share(line.element(share, "merged")));
  for (const RecordedShare& share : out.shares)
    if (share.base >= out.round) line.fail("merged", "has a base that is not there yet", std::to_string(share.base));
  line.reject_unread();
  return out;
}

void read_beginning(const Config& line, RunRecord* record) {
  line.integer_in("record", kFormat, kFormat);
  line.string("version");
  record->job = line.object("job").json();
  record->folder = line.string("folder");
  record->tuning = line.string("tuning");
  record->threads = line.integer_in("threads", 0, 65536);
  record->isa = line.string("isa");
  line.reject_unread();
}

// What comes after that round became void.
void restore(const Config& line, RunRecord* record) {
  const int64_t round = line.integer_in("restored", -1, kMostExamples);
  const uint64_t hash = hash_of(line);
  line.reject_unread();
  if (round >= static_cast<int64_t>(record->rounds.size()))
    line.fail("restored", "is of a round that the record has not got", std::to_string(round),
              "at most " + std::to_string(static_cast<int64_t>(record->rounds.size()) - 1),
              "the run went on from a checkpoint of one that was not recorded");
  record->rounds.resize(static_cast<size_t>(round + 1));
  if (round >= 0 && record->rounds.back().hash != hash) line.fail("hash", "is not that of the round", hex_digest(hash));
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

RunRecord read_record(std::istream& lines, const std::string& where) {
  RunRecord record;
  std::string text;
  for (int64_t number = 1; std::getline(lines, text); ++number) {
    if (lines.eof()) break;  // torn
    const std::string place = where + ":" + std::to_string(number);
    if (text.size() > kMaxLine) throw Error(ErrorKind::data, {.where = place, .what = "the line is too long"});
    Json json;
    try {
      json = Json::parse(text, place);
    } catch (const Error& error) {
      throw Error(ErrorKind::data, {.where = place, .what = error.what()});
    }
    const Config line(json, place, ErrorKind::data);
    if (number == 1) {
      read_beginning(line, &record);
    } else if (line.has("restored")) {
      restore(line, &record);
    } else {
      record.rounds.push_back(read_round(line));
      if (record.rounds.back().round != static_cast<int64_t>(record.rounds.size()) - 1)
        line.fail("round", "does not follow the one before", std::to_string(record.rounds.back().round),
                  std::to_string(record.rounds.size() - 1));
    }
  }
  if (!record.job.is_object()) throw Error(ErrorKind::data, {.where = where, .what = "is no record of a run"});
  return record;
}

RecordFile::RecordFile(const std::string& path) : path_(path) {
  std::error_code status;
  if (std::filesystem::exists(path, status)) {
    std::ifstream in(path, std::ios::binary);
    std::string line;
    uintmax_t whole = 0;
    while (std::getline(in, line) && !in.eof()) whole += line.size() + 1;
    std::filesystem::resize_file(path, whole, status);
    empty_ = whole == 0;
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
