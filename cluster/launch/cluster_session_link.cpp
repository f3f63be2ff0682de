// The cost of a run's exchanges on its links, measured while it trains: told when it is too high, and kept in the run's folder.
#include <algorithm>
#include <exception>

#include "cluster/launch/cluster_session.h"
#include "cluster/launch/link_fit.h"
#include "src/core/warning.h"
#include "src/io/file.h"

namespace perigee {
namespace {

constexpr int64_t kRounds = 3, kLeastRounds = 2;  // in the first a worker may wait for another's first step, which tunes and compiles
constexpr double kLongExchange = 2;               // seconds: with as much of them fewer rounds are enough
constexpr const char* kFile = "link.json";
constexpr uint64_t kMostBytes = 1 << 20;

}  // namespace

// Workers that train on while they exchange lose nothing by a long exchange.
void ClusterSession::watch_link(const Figures& figures, int workers, int64_t examples) {
  const Policy& policy = job_.policy;
  if (policy.served || policy.overlap || workers < 2 || examples <= 0) return;
  LinkWatch& w = link_watch_;
  const double each = 1.0 / workers;
  ++w.rounds;
  w.examples += static_cast<double>(examples) * each;
  w.cost.train_s += (figures.load_s + figures.compute_s) * each;
  w.cost.transfer_s += figures.transfer_s * each;
  w.quickest_s = w.rounds == 1 ? figures.transfer_s * each : std::min(w.quickest_s, figures.transfer_s * each);
  w.cost.sent_bytes += static_cast<double>(figures.bytes_up) * each;
  w.cost.workers = workers;
  if (w.told || w.rounds < kLeastRounds || (w.rounds < kRounds && w.cost.transfer_s < kLongExchange)) return;
  const ExchangeCost mean = mean_cost();
  if (mean.fits() || mean.sent_bytes <= 0 || mean.train_s <= 0) return;
  w.told = true;
  warn(why_not_fit(policy.name, mean));
  keep_link();
}

// The quickest exchange says how fast the link is: in others workers may have waited for each other.
ExchangeCost ClusterSession::mean_cost() const {
  ExchangeCost mean = link_watch_.cost;
  const double rounds = static_cast<double>(std::max<int64_t>(1, link_watch_.rounds));
  const double batch = static_cast<double>(std::max<int64_t>(1, job_.facts.batch));
  mean.train_s /= rounds, mean.sent_bytes /= rounds;
  mean.transfer_s = link_watch_.quickest_s;
  mean.steps = std::max<int64_t>(1, static_cast<int64_t>(link_watch_.examples / rounds / batch + 0.5));
  mean.block_bytes = static_cast<double>(job_.facts.parameters) * 4;
  return mean;
}

void ClusterSession::keep_link() {
  if (link_watch_.rounds == 0) return;
  Json kept = mean_cost().to_json();
  kept.set("averaging", job_.policy.to_json());
  log_.folder()->write_text(kFile, kept.dump() + "\n");
}

// A run that goes on may know before its first round.
void ClusterSession::recall_link() {
  const std::string file = folder_path_ + "/" + kFile;
  if (!file_exists(file)) return;
  try {
    const Json kept = Json::parse(as_text(read_file(file, kMostBytes)), file);
    const std::optional<ExchangeCost> cost = read_exchange_cost(kept);
    const Json* averaging = kept.find("averaging");
    if (!cost || cost->fits() || !averaging || *averaging != job_.policy.to_json()) return;
    link_watch_.told = true;
    warn(why_not_fit(job_.policy.name, *cost));
  } catch (const std::exception&) {  // it is measured again
  }
}

}  // namespace perigee
