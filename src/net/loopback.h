// A TCP socket whose other end is on this machine: what suits a network only costs there.
#pragma once

namespace perigee {

// Before it connects or listens, where that is possible: what the system's own choice has begun stays in part. A socket that is accepted
// has what its listener had. Failures do no harm.
void tune_for_loopback(int descriptor);

}  // namespace perigee
