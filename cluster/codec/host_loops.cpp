#include "cluster/codec/codec.h"
#include "src/graph/plan.h"

namespace perigee {

std::unique_ptr<Codec> make_codec(const Json* spec, const std::string& where) { return make_codec(spec, where, codec_loops(host_isa())); }

}  // namespace perigee
