#include "src/train/device/host_only.h"

#include "src/core/error.h"

namespace perigee {

void refuse_carried_state(const std::string& where, const std::string& carried) {
  throw Error(ErrorKind::usage, {.where = where,
                                 .what = "carries " + carried + " from batch to batch, which is for the threads of a host",
                                 .got = "a GPU",
                                 .expected = "device = \"cpu\"",
                                 .hint = "or leave out state = \"carry\", so that each window begins with zeros"});
}

}  // namespace perigee
