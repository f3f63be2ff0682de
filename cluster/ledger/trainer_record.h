// The record of a run whose workers train while a round is on its way (streaming): what each worker's trainer did, in its order. Such a run
// depends on when a result came, between which steps it was taken, and which worker had which ranges; on nothing else that is not in the job. Each
// process of a worker writes a file of its own into RUN/record/, one JSON object on a line; `perigee replay` reads them all.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/ledger/run_record.h"
#include "cluster/replica/replica.h"

namespace perigee {

// The hash of an image of parameters without its head: a launcher adds to that what it keeps of a run.
uint64_t image_digest(std::span<const std::byte> image);

// Called on the trainer's thread, but for exchanged(). `at`: local steps of the order in progress.
class TrainerRecord {
 public:
  explicit TrainerRecord(std::string folder) : folder_(std::move(folder)) {}

  void begin(const Welcome& welcome);
  void exchanged(const Json& round);  // as LocalRounds tells it, on the loop's thread: before the result is applied
  void loaded(int64_t round, uint64_t hash, const SharedBytes& image, bool keep_local, int64_t at);
  void imaged(const SharedBytes& image, int64_t at);
  void train(const TrainOrder& order);
  void staged(const Contribution& contribution);
  void given_up(int64_t at);
  void applied(int64_t round, uint64_t hash, int64_t at);
  void unstaged(int64_t at);
  void dropped();

 private:
  void write(Json::Object fields);

  const std::string folder_;
  std::mutex mutex_;
  std::unique_ptr<RecordFile> file_;
};

// One thing that a process of a worker did.
struct TrainerStep {
  enum class Kind : uint8_t { loaded, imaged, train, staged, given_up, exchanged, applied, unstaged, dropped };
  struct Member {
    WorkerId id = 0;
    std::string site;
    int64_t examples = 0;
    bool operator==(const Member&) const = default;
  };
  Kind kind = Kind::dropped;
  int64_t at = 0;
  int64_t round = 0;
  uint64_t hash = 0, image = 0;  // image 0: initial values
  bool keep_local = false, last = false, finite = true;
  int64_t examples = 0;  // staged; exchanged: after the round, by all
  TrainOrder order;
  WorkerId self = 0;
  std::vector<Member> members;  // of an exchange, in the order of the ranks
};

struct TrainerLog {
  std::string where;
  Json job;
  std::string version, folder, tuning, isa;
  int64_t threads = 0;
  WorkerId worker = 0;
  std::vector<TrainerStep> steps;
};

// A last line without its end is left out. Error(data) for anything else that is no such record.
TrainerLog read_trainer_log(std::string_view text, const std::string& where);

}  // namespace perigee
