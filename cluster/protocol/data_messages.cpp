#include "cluster/protocol/data_messages.h"

#include "cluster/protocol/wire.h"

namespace perigee {

PERIGEE_DATA_MESSAGES(PERIGEE_CODER)

}  // namespace perigee
