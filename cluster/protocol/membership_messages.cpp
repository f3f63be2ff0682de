#include "cluster/protocol/membership_messages.h"

#include "cluster/protocol/wire.h"

namespace perigee {

PERIGEE_MEMBERSHIP_MESSAGES(PERIGEE_CODER)

}  // namespace perigee
