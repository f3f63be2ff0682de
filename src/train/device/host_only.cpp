#include "src/train/device/host_only.h"

#include "src/core/error.h"

namespace perigee {

void refuse_own_rule(const std::string& where) {
  throw Error(ErrorKind::usage, {.where = where + ": optimizer",
                                 .what = "is a rule of one's own, which the threads of a host make",
                                 .got = "a GPU",
                                 .expected = "device = \"cpu\"",
                                 .hint = "or an optimiser of the list, such as pg.adam { lr = 1e-3 }"});
}

void refuse_lookahead(const std::string& where) {
  throw Error(ErrorKind::usage, {.where = where + ": lookahead",
                                 .what = "keeps slow weights, which the threads of a host do",
                                 .got = "a GPU",
                                 .expected = "device = \"cpu\"",
                                 .hint = "or ema = { decay = 0.999 }, which GPUs keep"});
}

}  // namespace perigee
