// The part of an exchange that a round of fragments is: due fragments are exchanged, in payloads or as sums of the row. In the run's last round
// the others are added up too.
#pragma once

#include <span>

#include "cluster/exchange/exchange.h"

namespace perigee {

// `setup` has its round. `staged` null: this worker has nothing in it.
void set_up_fragments(std::span<const FragmentPart> parts, bool last, const Contribution* staged, Exchange::Setup* setup);

}  // namespace perigee
