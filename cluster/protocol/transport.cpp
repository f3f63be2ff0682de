#include "cluster/protocol/transport.h"

namespace perigee {

const char* to_string(PeerLoss why) {
  switch (why) {
    case PeerLoss::closed: return "closed by the other side";
    case PeerLoss::reset: return "reset by the other side";
    case PeerLoss::timed_out: return "timed out";
    case PeerLoss::refused: return "refused";
    case PeerLoss::protocol_error: return "protocol error";
    case PeerLoss::unauthenticated: return "not authenticated";
  }
  return "unknown";
}

}  // namespace perigee
