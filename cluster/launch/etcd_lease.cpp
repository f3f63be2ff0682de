#include "cluster/launch/etcd_lease.h"

#include <time.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <random>

#include "src/core/error.h"
#include "src/core/warning.h"
#include "src/io/digest.h"

namespace perigee {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;
constexpr uint64_t kMarginNs = kSecondNs;  // before etcd lets go of the key its holder has stopped committing
constexpr auto kSoon = std::chrono::milliseconds(250), kRenew = std::chrono::milliseconds(1000 * kEtcdLeaseSeconds / 3);
constexpr uint64_t kWarnEveryNs = 60 * kSecondNs;

// Goes on while the machine sleeps, and is set by nobody.
uint64_t now_ns() {
  timespec time = {};
  clock_gettime(CLOCK_BOOTTIME, &time);
  return static_cast<uint64_t>(time.tv_sec) * kSecondNs + static_cast<uint64_t>(time.tv_nsec);
}

std::string random_id() {
  std::random_device random;
  return hex_digest(uint64_t{random()} << 32 | random());
}

std::string text_of(const Json& json, const char* key) {
  const Json* value = json.find(key);
  return value != nullptr && value->is_string() ? value->as_string() : "";
}

}  // namespace

EtcdLease::EtcdLease(const std::string& url, uint64_t job, std::string address, Json about, bool ask)
    : etcd_(parse_etcd_address(url)),
      lease_key_(etcd_.address().path + "/lease"),
      fence_key_(etcd_.address().path + "/fence"),
      id_(random_id()),
      job_(hex_digest(job)),
      address_(std::move(address)),
      about_(std::move(about)) {
  const Found found = ask ? parse(etcd_.get(lease_key_)) : Found{};
  if (!found.job.empty() && found.job != job_)
    throw Error(ErrorKind::usage, {.where = etcd_.address().text,
                                   .what = "another run has this name",
                                   .got = "run " + found.job + ", which is coordinated at " + found.holder.address,
                                   .hint = "choose another name behind the hosts, or wait until it has ended"});
  holder_ = found.holder;
  thread_ = std::thread([this] { run(); });
}

EtcdLease::~EtcdLease() {
  {
    const std::lock_guard lock(mutex_);
    quit_ = true;
  }
  wake_.notify_all();
  thread_.join();
  try {
    if (lease_ != 0) etcd_.revoke(lease_);
  } catch (const std::exception&) {
    // It ends by itself.
  }
}

bool EtcdLease::may_be_granted(const LeaseClaim& claim) const {
  const std::lock_guard lock(mutex_);
  return !lost_ && (!claim.is_standby || now_ns() < deadline_ns_);
}

LeaseStore::Answer EtcdLease::acquire(const LeaseClaim& claim) {
  assert(claim.generation > 0);
  const std::lock_guard lock(mutex_);
  if (wanted_ != claim.generation) {
    wanted_ = claim.generation;
    wake_.notify_all();
  }
  if (lost_) return Answer::refused;
  return held_ == claim.generation && now_ns() < deadline_ns_ ? Answer::granted : Answer::pending;
}

LeaseStore::Answer EtcdLease::renew(uint64_t generation) {
  const std::lock_guard lock(mutex_);
  if (lost_) return Answer::refused;
  return held_ == generation && now_ns() < deadline_ns_ ? Answer::granted : Answer::pending;
}

LeaseStore::Holder EtcdLease::holder() const {
  const std::lock_guard lock(mutex_);
  return holder_;
}

// A value that is not ours has neither id nor job.
EtcdLease::Found EtcdLease::parse(const EtcdValue& value) {
  if (value.created == 0) return {};
  try {
    const Json json = Json::parse(value.value, "etcd", 1000);
    const Json* generation = json.find("generation");
    const bool good = generation != nullptr && generation->is_int() && generation->as_int() >= 0;
    return {.holder = {text_of(json, "address"), good ? static_cast<uint64_t>(generation->as_int()) : 0},
            .id = text_of(json, "id"),
            .job = text_of(json, "job")};
  } catch (const Error&) {
    return {.holder = {}, .id = "", .job = "unknown"};
  }
}

std::string EtcdLease::value(uint64_t generation) const {
  Json json = about_;
  json.set("job", job_);
  json.set("id", id_);
  json.set("address", address_);
  json.set("generation", static_cast<int64_t>(generation));
  return json.dump();
}

void EtcdLease::run() {
  for (;;) {
    bool failed = false;
    try {
      turn();
    } catch (const Error& error) {
      failed = true;
      if (now_ns() - told_ns_ > kWarnEveryNs || told_ns_ == 0) {
        told_ns_ = now_ns();
        warn(std::string(error.what()) + "; while it is away nothing is committed");
      }
    }
    std::unique_lock lock(mutex_);
    const uint64_t seen = wanted_;
    const bool calm = !failed && created_ != 0 && held_ == wanted_;
    wake_.wait_for(lock, calm ? kRenew : kSoon, [&] { return quit_ || wanted_ != seen || (calm && held_ != wanted_); });
    if (quit_) return;
  }
}

void EtcdLease::turn() {
  uint64_t wanted, held;
  {
    const std::lock_guard lock(mutex_);
    wanted = wanted_, held = held_;
    if (lost_) return;
  }
  if (created_ != 0) keep();
  if (created_ == 0) claim_key();
  else if (held != wanted) write_generation();
}

// Whether a newer generation of another coordinator was there: then this one holds the run no more, whoever has the key now.
bool EtcdLease::superseded(const Found& last) {
  const std::lock_guard lock(mutex_);
  if (last.job != job_ || mine(last) || last.holder.generation == 0) return false;
  const uint64_t own = std::max(wanted_, held_);
  if (own == 0 || last.holder.generation < own) return false;
  lost_ = true;
  holder_ = last.holder;
  return true;
}

// The key where nobody has it: before any worker has come, so that they find this coordinator.
void EtcdLease::claim_key() {
  const Found there = parse(etcd_.get(lease_key_));
  if (superseded(parse(etcd_.get(fence_key_)))) return;
  if (!there.job.empty() && mine(there)) {  // an earlier try has written it, and its answer was lost
    etcd_.revoke(lease_);
    lease_ = 0;
    return;
  }
  std::string text;
  {
    const std::lock_guard lock(mutex_);
    if (!there.job.empty()) {
      holder_ = there.holder;
      return;
    }
    text = value(0);
  }
  const uint64_t begun = now_ns();
  if (lease_ == 0 || etcd_.keep_alive(lease_) == 0) lease_ = etcd_.grant(kEtcdLeaseSeconds);
  created_ = etcd_.transact({{lease_key_, true, 0}}, {{lease_key_, text, lease_}});
  if (created_ == 0) return;
  const std::lock_guard lock(mutex_);
  held_ = 0;
  deadline_ns_ = begun + kEtcdLeaseSeconds * kSecondNs - kMarginNs;
}

// While the key is the one that it made, and the fence is as it was read.
void EtcdLease::write_generation() {
  const EtcdValue fence = etcd_.get(fence_key_);
  if (superseded(parse(fence))) return;
  uint64_t wanted;
  std::string text;
  {
    const std::lock_guard lock(mutex_);
    wanted = wanted_;
    text = value(wanted);
  }
  if (etcd_.transact({{lease_key_, true, created_}, {fence_key_, false, fence.modified}},
                     {{lease_key_, text, lease_}, {fence_key_, text}}) == 0)
    return;  // the next turn finds out why
  const std::lock_guard lock(mutex_);
  held_ = wanted;
  holder_ = {address_, wanted};
}

void EtcdLease::keep() {
  const uint64_t begun = now_ns();
  const int64_t seconds = etcd_.keep_alive(lease_);
  // The key may have been removed by hand while the lease lives.
  const bool ours = seconds > 0 && etcd_.transact({{lease_key_, true, created_}}, {}) != 0;
  if (seconds == 0) lease_ = 0;
  if (!ours) {
    created_ = 0;
    const std::lock_guard lock(mutex_);
    deadline_ns_ = 0;
    return;
  }
  const std::lock_guard lock(mutex_);
  deadline_ns_ = begun + static_cast<uint64_t>(seconds) * kSecondNs - kMarginNs;
}

Json runs_in_etcd(const std::string& address) {
  EtcdClient etcd(parse_etcd_address(address), 3000);
  Json runs = Json::array();
  for (const auto& [key, value] : etcd.list(etcd.address().path + "/")) {
    if (!key.ends_with("/lease")) continue;
    try {
      Json run = Json::parse(value.value, key, 1000);
      if (!run.is_object()) continue;
      run.erase("id");
      run.set("name", key.substr(0, key.size() - 6));
      runs.push(std::move(run));
    } catch (const Error&) {
      continue;  // none of ours
    }
  }
  return runs;
}

std::string coordinator_in_etcd(const std::string& address) {
  EtcdClient etcd(parse_etcd_address(address), 3000);
  const EtcdValue found = etcd.get(etcd.address().path + "/lease");
  std::string at;
  if (found.created != 0) at = text_of(Json::parse(found.value, etcd.address().text, 1000), "address");
  if (at.empty())
    throw Error(ErrorKind::cluster, {.where = etcd.address().text,
                                     .what = "no run is coordinated under this name",
                                     .hint = "`perigee train --listen … --lease " + etcd.address().text + "` begins one"});
  return at;
}

}  // namespace perigee
