// The state that a cluster run continues from: the folder of an earlier launcher, or what a standby has of the one that it follows.
#include <algorithm>
#include <filesystem>
#include <random>

#include "cluster/launch/cluster_session.h"
#include "src/core/warning.h"
#include "src/graph/tuning.h"
#include "src/io/digest.h"
#include "src/io/file.h"
#include "src/io/safetensors.h"
#include "src/report/run_files.h"

namespace perigee {
namespace {

namespace fs = std::filesystem;

const Json* number_in(const Metadata& metadata, const char* key, Json* holder) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) return nullptr;
  *holder = Json::parse(found->second, key);
  return holder->is_int() ? holder : nullptr;
}

// The round of a checkpoint from which a run with this ledger may go on: that round must count, and have given these parameters. A
// recovery may have gone back behind it; what was written before is then of a line that no worker holds any more.
int64_t round_to_resume(std::span<const std::byte> bytes, std::span<const LedgerRecord> ledger, const std::string& file) {
  const Safetensors checkpoint = parse_safetensors(bytes, file);
  Json told;
  if (!number_in(checkpoint.metadata, "round", &told))
    throw Error(ErrorKind::model, {.where = file, .what = "is no checkpoint of a cluster", .hint = "continue it without --workers"});
  const int64_t round = told.as_int();
  if (round < 0) return -1;  // the initial values
  const std::optional<uint64_t> counted = counted_hash(ledger, round);
  const auto hash = checkpoint.metadata.find("hash");
  const bool same = counted && (hash == checkpoint.metadata.end() || hash->second == hex_digest(*counted));
  if (!same)
    throw Error(ErrorKind::model,
                {.where = file,
                 .what = "its round " + std::to_string(round) + " became void; the run went on without it",
                 .got = hash == checkpoint.metadata.end() ? "" : "parameters with hash " + hash->second,
                 .expected = counted ? "those of the ledger, with hash " + hex_digest(*counted) : "a round that the run's ledger counts",
                 .hint = "continue from an older checkpoint of this run"});
  return round;
}

// Error(usage): what the run has trained is not a part of what the job asks for, so that its accounts cannot be continued.
void check_reach(const LedgerReach& reach, const Job& job, const RunFacts& facts, const std::string& run) {
  const auto examples = [](int64_t count) { return std::to_string(count) + " examples"; };
  if (reach.examples != 0 && reach.examples != facts.examples)
    throw Error(ErrorKind::usage, {.where = run,
                                   .what = "this run's training data had another size",
                                   .got = examples(facts.examples),
                                   .expected = examples(reach.examples) + ", as its ledger says",
                                   .hint = "give the job these data again, or train a new run"});
  if (facts.planned == 0 || reach.end <= facts.planned) return;
  const int64_t needed = (reach.end + facts.examples - 1) / facts.examples;
  const char* steps = job.json().find("steps") ? " and more 'steps'" : "";
  throw Error(ErrorKind::usage, {.where = run,
                                 .what = "has trained more than the job asks for",
                                 .got = examples(reach.end) + ", which end in epoch " + std::to_string(needed),
                                 .expected = "at most " + examples(facts.planned) + " with these 'epochs' and 'steps'",
                                 .hint = "resume with 'epochs' of at least " + std::to_string(needed) + steps + ", or train a new run"});
}

}  // namespace

// cluster.json: which run this is and where it listened, so that workers which outlived their launcher find it again.
void ClusterSession::read_identity() {
  const std::string file = folder_path_ + "/cluster.json";
  if (!options_.resume.empty() && file_exists(file)) {
    const Json identity = Json::parse(as_text(read_file(file)), file);
    const Config config(identity, file);
    job_id_ = std::strtoull(config.string("job").c_str(), nullptr, 16);
    earlier_address_ = config.string("listen", "");
  }
  std::random_device random;
  while (job_id_ == 0) job_id_ = (uint64_t{random()} << 32) | random();
  set_address("");
}

void ClusterSession::set_address(const std::string& listening) {
  const Json identity = Json(Json::Object{{"job", hex_digest(job_id_)}, {"listen", listening}});
  log_.folder()->write_text("cluster.json", identity.dump(2) + "\n");
}

// A launcher that ended properly said so in its log, and told its workers; else they may still be there, with newer results.
bool ClusterSession::continues_crashed_run() const {
  if (resumed_from_.empty()) return false;
  const RunFiles run = read_run_files(folder_path_);
  const Json* last = run.outcome();
  return last && is_event(*last, "start");
}

void ClusterSession::resume() {
  std::string run = options_.resume;
  std::vector<std::string> files = {options_.resume};
  if (fs::is_directory(run)) {
    files = CheckpointFolder(run + "/checkpoints", 1).files();
  } else {
    if (!file_exists(run))
      throw Error(ErrorKind::usage,
                  {run, "there is no run or checkpoint of this name", "", "", "give the folder of a run, or a file in its checkpoints/"});
    run = fs::path(run).parent_path().parent_path().string();
  }
  if (!file_exists(run + "/ledger"))
    throw Error(ErrorKind::usage, {.where = options_.resume,
                                   .what = "this run has no ledger: it was trained on one machine",
                                   .hint = "continue it without --workers, --agents and --listen"});
  size_t read = 0;
  const std::vector<LedgerRecord> ledger = decode_records(FileLedger::load(run + "/ledger"), &read);
  check_reach(reach_of(ledger), job_.job, job_.facts, options_.resume);
  for (const std::string& file : files) {
    try {
      const auto bytes = std::make_shared<const std::vector<std::byte>>(read_file(file));
      restore(bytes, round_to_resume(*bytes, ledger, file), file);
      resumed_from_ = file;
      break;
    } catch (const Error& error) {
      if (file == files.back()) throw;
      warn(std::string(error.what()) + "; trying the checkpoint before it");
    }
  }
  // Without a checkpoint the ledger alone is continued from: its rounds become void unless a worker holds them.
  if (resumed_from_.empty()) resumed_from_ = run;
}

// The checkpoint's numbers are the workers' business; here count its round and what log and judge remember.
void ClusterSession::restore(const SharedBytes& bytes, int64_t round, const std::string& file) {
  const Safetensors checkpoint = parse_safetensors(*bytes, file);
  resume_round_ = round;
  resume_image_ = bytes;
  // The bits of a run depend on its kernels: those that it has used so far come before what this machine has measured since.
  if (const auto choices = checkpoint.metadata.find("tuning"); choices != checkpoint.metadata.end()) {
    Tuning tuning;
    tuning.merge(Json::parse(job_.tuning, "tuning"));
    tuning.merge(Json::parse(choices->second, file + ": tuning"));
    job_.tuning = tuning.to_json().dump();
  }
  const auto extra_text = checkpoint.metadata.find("extra");
  if (extra_text == checkpoint.metadata.end()) return;
  const Json extra = Json::parse(extra_text->second, file + ": extra");
  log_.restore(extra);
  if (const Json* state = extra.find("early_stopping"); state && state->is_object()) judge_.restore(*state);
}

// The state of log and judge for this run.
Json ClusterSession::memory() const {
  Json extra = Json::object();
  log_.save(extra);
  extra.set("early_stopping", judge_.state());
  return extra;
}

void ClusterSession::inherit(const Inheritance& inheritance) {
  if (!inheritance.ledger.empty() && !(ledger_->append(inheritance.ledger) && ledger_->sync()))
    throw Error(ErrorKind::resources, {.where = folder_path_ + "/ledger",
                                       .what = "the standby cannot write its ledger",
                                       .hint = "is the disk full, or the folder read-only?"});
  if (inheritance.checkpoint) {
    try {
      restore(inheritance.checkpoint, inheritance.checkpoint_round, "the standby's checkpoint");
      if (checkpoints_) checkpoint_file_ = checkpoints_->add(*inheritance.checkpoint, inheritance.checkpoint_round + 1);
    } catch (const Error& error) {  // the workers hold what it was made of
      warn(std::string("the coordinator's last checkpoint is of no use here: ") + error.what());
    }
  }
  if (inheritance.session.empty()) return;
  const Json extra = Json::parse(inheritance.session, "the coordinator's memory");
  log_.restore(extra);
  if (const Json* state = extra.find("early_stopping"); state && state->is_object()) judge_.restore(*state);
}

}  // namespace perigee
