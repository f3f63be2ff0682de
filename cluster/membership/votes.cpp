#include "cluster/membership/votes.h"

#include <algorithm>
#include <cassert>
#include <set>

#include "cluster/planted.h"

namespace perigee {
namespace {

bool obsolete(const Membership& old, const Membership& by) {
  if (by.established) return old.generation < by.generation || (old.generation == by.generation && !old.established);
  return !old.established && old.generation < by.generation && term_of(old.generation) == term_of(by.generation);
}

}  // namespace

void remember(std::vector<Membership>* known, const Membership& membership) {
  assert(known != nullptr);
  if (membership.generation == 0) return;
  for (const Membership& m : *known) {
    const bool same = m.generation == membership.generation && m.established == membership.established;
    if (same || obsolete(membership, m)) return;
  }
  std::erase_if(*known, [&](const Membership& m) { return obsolete(m, membership); });
  const auto later = std::find_if(known->begin(), known->end(), [&](const Membership& m) { return m.generation > membership.generation; });
  known->insert(later, membership);
  if (known->size() > kMaxMemberships) known->erase(known->begin() + 1);  // there are never so many terms in which nothing was established
}

bool enough_votes(std::span<const WorkerId> followers, std::span<const Membership> known, bool casting_vote) {
  if (planted(Bug::no_majority)) return !followers.empty();
  std::vector<WorkerId> sorted(followers.begin(), followers.end());
  std::sort(sorted.begin(), sorted.end());
  const bool based = std::any_of(known.begin(), known.end(), [](const Membership& m) { return m.established; });
  return based && std::all_of(known.begin(), known.end(), [&](const Membership& m) {
           const auto follows = [&](WorkerId id) { return std::binary_search(sorted.begin(), sorted.end(), id); };
           const auto votes = static_cast<size_t>(std::count_if(m.ids.begin(), m.ids.end(), follows));
           return votes > 0 && (2 * votes > m.ids.size() || (casting_vote && 2 * votes == m.ids.size()));
         });
}

std::string who_is_missing(std::span<const WorkerId> followers, std::span<const Membership> known, const std::map<WorkerId, Named>& who) {
  std::map<std::string, std::vector<std::string>> by_host;
  std::set<WorkerId> told(followers.begin(), followers.end());
  for (const Membership& membership : known)
    for (const WorkerId id : membership.ids) {
      if (!told.insert(id).second) continue;
      const auto found = who.find(id);
      if (found != who.end()) by_host[found->second.host].push_back(found->second.name);
      else by_host[""].push_back("worker " + std::to_string(id));
    }
  std::string text;
  for (const auto& [host, names] : by_host) {
    text += (text.empty() ? "" : ", ") + (host.empty() ? std::string("unknown hosts") : "host " + host) + " (";
    for (size_t i = 0; i < names.size(); ++i) text += (i == 0 ? "" : ", ") + names[i];
    text += ")";
  }
  return text;
}

}  // namespace perigee
