#include "cluster/protocol/server_messages.h"

#include "cluster/protocol/wire.h"

namespace perigee {

PERIGEE_SERVER_MESSAGES(PERIGEE_CODER)

}  // namespace perigee
