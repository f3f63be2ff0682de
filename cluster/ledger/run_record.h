// The record with which a served run is trained again, bit for bit: the job, and the parts of each of the server's rounds. The server writes it
// as it goes, one JSON object on a line, before it announces the round; `perigee replay` reads it. Where rounds became void, the
// record says from where it goes on. What the kernel has is safe from a kill, not from a power cut.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/rounds/server/desk.h"
#include "src/core/json.h"

namespace perigee {

class Config;

struct RecordedShare {
  WorkerId worker = 0;
  uint64_t counted = 0;  // contributions of this worker before this one, since it began afresh
  int64_t base = -1;
  int64_t examples_before = 0, examples_per_step = 0;
  uint32_t threads = 1;
  std::string isa;
  std::vector<Range> ranges;  // one per step
};

struct RecordedRound {
  int64_t round = 0;
  uint64_t hash = 0;
  int64_t examples_after = 0, workers = 0;
  std::vector<RecordedShare> shares;
};

struct RunRecord {
  Json job;
  std::string version, folder, tuning, isa;  // of the server
  int64_t threads = 0;
  std::vector<RecordedRound> rounds;  // those that count, from round 0 on
};

std::string record_begin(const Welcome& welcome, const std::string& isa);
std::string record_restored(int64_t round, uint64_t hash);
std::string record_round(int64_t round, uint64_t hash, int64_t examples_after, int64_t workers, const std::vector<Arrival>& merged);

// Lines of JSON, one after the other; a last one without its end is left out. Error(data) for what is no JSON.
void for_each_record_line(std::string_view text, const std::string& where, const std::function<void(const Config& line)>& take);
// A last line without its end is left out. Error(data) for anything else that is no record, or one with a gap.
RunRecord read_record(std::string_view text, const std::string& where);

// Appends to a file; what is there of an unfinished line is cut off. Error(resources).
class RecordFile {
 public:
  explicit RecordFile(const std::string& path);
  ~RecordFile();
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;
  void append(const std::string& line);  // a disk that is full costs the record, not the run: a warning, once

 private:
  std::FILE* file_ = nullptr;
  std::string path_;
  bool failed_ = false;
};

}  // namespace perigee
