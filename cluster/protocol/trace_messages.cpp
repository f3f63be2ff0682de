#include "cluster/protocol/trace_messages.h"

#include "cluster/protocol/wire.h"

namespace perigee {

PERIGEE_TRACE_MESSAGES(PERIGEE_CODER)

}  // namespace perigee
