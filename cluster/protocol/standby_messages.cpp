#include "cluster/protocol/standby_messages.h"

#include "cluster/protocol/wire.h"

namespace perigee {

PERIGEE_STANDBY_MESSAGES(PERIGEE_CODER)

}  // namespace perigee
