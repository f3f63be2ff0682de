#include "cluster/protocol/agent_messages.h"

#include "cluster/protocol/wire.h"

namespace perigee {

PERIGEE_AGENT_MESSAGES(PERIGEE_CODER)

}  // namespace perigee
