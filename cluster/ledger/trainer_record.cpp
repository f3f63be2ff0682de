#include "cluster/ledger/trainer_record.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <utility>

#include "cluster/ledger/ranges.h"
#include "cluster/ledger/run_record.h"
#include "src/core/config.h"
#include "src/core/error.h"
#include "src/core/host_isa.h"
#include "src/io/digest.h"
#include "src/io/file.h"

namespace perigee {
namespace {

constexpr int64_t kMost = int64_t{1} << 52, kMostSteps = int64_t{1} << 30;

Json ranges_json(const std::vector<Range>& ranges) {
  Json list = Json::array();
  for (const Range& range : ranges) {
    Json three = Json::array();
    three.push(static_cast<int64_t>(range.epoch)), three.push(range.begin), three.push(range.count);
    list.push(std::move(three));
  }
  return list;
}

std::vector<Range> read_ranges(const Config& line) {
  const Json* list = line.raw("ranges");
  if (!list || !list->is_array() || list->as_array().size() > kMaxRanges)
    line.fail("ranges", "is no list", "", "at most " + std::to_string(kMaxRanges) + " entries");
  std::vector<Range> ranges;
  for (const Json& one : list->as_array()) {
    const bool three = one.is_array() && one.as_array().size() == 3 &&
                       std::all_of(one.as_array().begin(), one.as_array().end(),
                                   [](const Json& n) { return n.is_int() && n.as_int() >= 0 && n.as_int() <= kMost; });
    if (!three) line.fail("ranges", "holds something else", "", "[epoch, begin, count] each");
    const auto& numbers = one.as_array();
    ranges.push_back({static_cast<uint64_t>(numbers[0].as_int()), numbers[1].as_int(), numbers[2].as_int()});
  }
  return ranges;
}

uint64_t read_digest(const Config& line, const char* key) {
  const std::string text = line.string(key);
  uint64_t digest = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), digest, 16);
  if (text.size() != 16 || error != std::errc() || end != text.data() + text.size())
    line.fail(key, "is no hash", text.substr(0, 40), "16 hexadecimal digits");
  return digest;
}

TrainOrder read_order(const Config& line) {
  return {.round = line.integer_in("train", 0, kMost),
          .ranges = read_ranges(line),
          .overlapped = line.boolean("overlapped"),
          .row = static_cast<size_t>(line.integer_in("row", 0, 1)),
          .examples_before = line.integer_in("before", 0, kMost),
          .examples_per_step = line.integer_in("per_step", 0, kMost)};
}

void read_exchange(const Config& line, TrainerStep* step) {
  step->round = line.integer_in("exchanged", 0, kMost);
  step->examples = line.integer_in("examples", 0, kMost);
  step->last = line.boolean("last");
  step->self = static_cast<WorkerId>(line.integer_in("self", 1, UINT32_MAX));
  const Json* list = line.raw("of");
  if (!list || !list->is_array() || list->as_array().empty() || list->as_array().size() > kMaxWorkers)
    line.fail("of", "is no list of workers", "", "1 to " + std::to_string(kMaxWorkers) + " entries");
  for (const Json& one : list->as_array()) {
    const Config member = line.element(one, "of");
    step->members.push_back({.id = static_cast<WorkerId>(member.integer_in("id", 1, UINT32_MAX)),
                             .site = member.string("site"),
                             .examples = member.integer_in("examples", 0, kMost)});
    member.reject_unread();
  }
}

TrainerStep read_step(const Config& line) {
  using Kind = TrainerStep::Kind;
  TrainerStep step;
  if (line.has("train")) {
    step.kind = Kind::train, step.order = read_order(line);
  } else if (line.has("staged")) {
    step.kind = Kind::staged, step.examples = line.integer_in("staged", 0, kMost);
    step.at = line.integer_in("steps", 0, kMostSteps), step.finite = line.boolean("finite");
  } else if (line.has("exchanged")) {
    step.kind = Kind::exchanged, read_exchange(line, &step);
  } else if (line.has("dropped")) {
    step.kind = Kind::dropped, line.boolean("dropped");
  } else {
    step.at = line.integer_in("at", 0, kMostSteps);
    if (line.has("loaded")) {
      step.kind = Kind::loaded, step.round = line.integer_in("loaded", -1, kMost), step.hash = read_digest(line, "hash");
      step.image = read_digest(line, "image"), step.keep_local = line.boolean("keep_local");
    } else if (line.has("applied")) {
      step.kind = Kind::applied, step.round = line.integer_in("applied", 0, kMost), step.hash = read_digest(line, "hash");
    } else if (line.has("imaged")) {
      step.kind = Kind::imaged, step.image = read_digest(line, "imaged");
    } else if (line.has("unstaged")) {
      step.kind = Kind::unstaged, line.boolean("unstaged");
    } else {
      step.kind = Kind::given_up, line.boolean("given_up");
    }
  }
  line.reject_unread();
  return step;
}

void read_head(const Config& line, TrainerLog* log) {
  line.integer_in("record", 1, 1);
  log->version = line.string("version");
  log->job = line.object("job").json();
  log->folder = line.string("folder");
  log->tuning = line.string("tuning");
  log->threads = line.integer_in("threads", 1, 4096);
  log->isa = line.string("isa");
  log->worker = static_cast<WorkerId>(line.integer_in("worker", 1, UINT32_MAX));
  line.reject_unread();
}

}  // namespace

uint64_t image_digest(std::span<const std::byte> image) {
  uint64_t head = 0;
  if (image.size() < sizeof head) return xxh3_64(image) | 1;
  std::memcpy(&head, image.data(), sizeof head);
  return xxh3_64(image.subspan(sizeof head + std::min<uint64_t>(head, image.size() - sizeof head))) | 1;
}

void TrainerRecord::begin(const Welcome& welcome) {
  std::filesystem::create_directories(folder_);
  std::string path;  // a run that is resumed may give a number again
  for (int again = 0; path.empty() || file_exists(path); ++again)
    path = folder_ + "/worker-" + std::to_string(welcome.id) + (again > 0 ? "-" + std::to_string(again) : "") + ".jsonl";
  Json head = Json::parse(record_begin(welcome, isa_name(host_isa())), "record");
  head.set("worker", int64_t{welcome.id});
  const std::lock_guard lock(mutex_);
  file_ = std::make_unique<RecordFile>(path);
  file_->append(head.dump() + "\n");
}

void TrainerRecord::write(Json::Object fields) {
  const std::lock_guard lock(mutex_);
  if (file_) file_->append(Json(std::move(fields)).dump() + "\n");
}

void TrainerRecord::exchanged(const Json& round) {
  Json::Object fields;
  for (const char* key : {"exchanged", "examples", "last", "self", "of"})
    if (const Json* value = round.find(key)) fields.emplace_back(key, *value);
  write(std::move(fields));
}

void TrainerRecord::loaded(int64_t round, uint64_t hash, const SharedBytes& image, bool keep_local, int64_t at) {
  write({{"loaded", round},
         {"hash", hex_digest(hash)},
         {"image", hex_digest(image ? image_digest(*image) : 0)},
         {"keep_local", keep_local},
         {"at", at}});
}

void TrainerRecord::imaged(const SharedBytes& image, int64_t at) {
  if (image) write({{"imaged", hex_digest(image_digest(*image))}, {"at", at}});
}

void TrainerRecord::train(const TrainOrder& order) {
  write({{"train", order.round},
         {"ranges", ranges_json(order.ranges)},
         {"overlapped", order.overlapped},
         {"row", static_cast<int64_t>(order.row)},
         {"before", order.examples_before},
         {"per_step", order.examples_per_step}});
}

void TrainerRecord::staged(const Contribution& contribution) {
  write({{"staged", contribution.examples}, {"steps", contribution.steps}, {"finite", contribution.finite}});
}

void TrainerRecord::given_up(int64_t at) { write({{"given_up", true}, {"at", at}}); }
void TrainerRecord::unstaged(int64_t at) { write({{"unstaged", true}, {"at", at}}); }
void TrainerRecord::dropped() { write({{"dropped", true}}); }
void TrainerRecord::applied(int64_t round, uint64_t hash, int64_t at) {
  write({{"applied", round}, {"hash", hex_digest(hash)}, {"at", at}});
}

TrainerLog read_trainer_log(std::string_view text, const std::string& where) {
  TrainerLog log{.where = where};
  bool begun = false;
  for_each_record_line(text, where, [&](const Config& line) {
    if (!std::exchange(begun, true)) read_head(line, &log);
    else log.steps.push_back(read_step(line));
  });
  if (log.worker == 0) throw Error(ErrorKind::data, {.where = where, .what = "is no record of a worker"});
  return log;
}

}  // namespace perigee
