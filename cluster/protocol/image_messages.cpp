#include "cluster/protocol/image_messages.h"

#include "cluster/protocol/wire.h"

namespace perigee {

PERIGEE_IMAGE_MESSAGES(PERIGEE_CODER)

}  // namespace perigee
