#include "cluster/protocol/exchange_messages.h"

#include "cluster/protocol/wire.h"

namespace perigee {

PERIGEE_EXCHANGE_MESSAGES(PERIGEE_CODER)

}  // namespace perigee
