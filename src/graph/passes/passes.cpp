#include "src/graph/passes/passes.h"

#include "src/graph/passes/fuse_conv.h"
#include "src/graph/passes/fuse_elementwise.h"
#include "src/graph/passes/fuse_norm.h"
#include "src/graph/passes/simplify.h"

namespace perigee {

Graph fuse_forward(const Graph& graph, GeluIn gelu) { return fuse_norm(fuse_linear(fuse_conv(graph), gelu)); }

Graph fuse_backward(const Graph& graph) { return fuse_elementwise(simplify(graph)); }

}  // namespace perigee
