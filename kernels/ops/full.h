// full: no inputs. full_like: in[0] is read for its shape only. out[0] is filled with one number, converted to its dtype.
#pragma once

namespace perigee {

struct FullParams {
  double value;
};

}  // namespace perigee
