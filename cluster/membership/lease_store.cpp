#include "cluster/membership/lease_store.h"

#include <cassert>

namespace perigee {

bool VoteOfWorkers::may_be_granted(const LeaseClaim& claim) const {
  return claim.first || claim.standby != LeaseClaim::Consent::absent || enough_votes(claim.followers, claim.in_force, claim.is_standby);
}

LeaseStore::Answer VoteOfWorkers::acquire(const LeaseClaim& claim) {
  assert(claim.generation > 0 && !(claim.first && claim.is_standby));
  const bool granted =
      claim.first || claim.standby == LeaseClaim::Consent::given || enough_votes(claim.followers, claim.in_force, claim.is_standby);
  if (granted) holder_ = {claim.address, claim.generation};
  if (granted) return Answer::granted;
  return claim.standby == LeaseClaim::Consent::possible ? Answer::pending : Answer::refused;
}

}  // namespace perigee
