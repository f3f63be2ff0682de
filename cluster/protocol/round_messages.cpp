#include "cluster/protocol/round_messages.h"

#include "cluster/protocol/wire.h"

namespace perigee {

PERIGEE_ROUND_MESSAGES(PERIGEE_CODER)

}  // namespace perigee
