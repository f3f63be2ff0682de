// The cost of a run's exchanges on its links, measured while it trains: told when it is too high, and kept in the run's folder.
#include <exception>

#include "cluster/launch/cluster_session.h"
#include "cluster/launch/link_fit.h"
#include "src/core/warning.h"
#include "src/io/file.h"

namespace perigee {
namespace {

constexpr const char* kFile = "link.json";
constexpr uint64_t kMostBytes = 1 << 20;

}  // namespace

// Workers that train on while they exchange lose nothing by a long exchange.
void ClusterSession::watch_link(const Figures& figures, int workers, int64_t examples) {
  const Policy& policy = job_.policy;
  if (policy.served || policy.overlap || workers < 2 || examples <= 0) return;
  link_watch_.set_job(job_.facts.batch, static_cast<double>(job_.facts.parameters) * 4);
  if (!link_watch_.add(figures.load_s + figures.compute_s, figures.transfer_s, static_cast<double>(figures.bytes_up),
                       static_cast<double>(examples), workers))
    return;
  warn(why_not_fit(policy.name, link_watch_.cost()));
  keep_link();
}

void ClusterSession::keep_link() {
  if (link_watch_.rounds() == 0) return;
  Json kept = link_watch_.cost().to_json();
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
    link_watch_.set_told();
    warn(why_not_fit(job_.policy.name, *cost));
  } catch (const std::exception&) {  // it is measured again
  }
}

}  // namespace perigee
