// Attention whose scores are there as numbers, for what the op does not do: it keeps no matrix of queries and keys.
#include "src/nn/layers/attend.h"

#include <cmath>

#include "src/nn/noise.h"

namespace perigee {
namespace {

// [N, T, groups d] -> [N, groups, T, d], behind which `more` [rows, groups d] stand for each example.
Value by_head(Value x, int64_t groups, Value more) {
  const int64_t n = x.shape()[0], width = x.shape()[2];
  if (more) {
    const int64_t rows = more.shape()[0];
    const Value parts[] = {x, broadcast_to(reshape(more, Shape{1, rows, width}), Shape{n, rows, width})};
    x = concatenate(parts, 1);
  }
  return transpose(reshape(x, Shape{n, x.shape()[1], groups, width / groups}), {0, 2, 1, 3});
}

// 1 where a query may look at a key of the steps by their places: [S, T].
Value places_seen(Graph& graph, const Attending& how, int64_t queries, int64_t keys, Dtype dtype) {
  std::vector<double> seen;
  for (int64_t i = 0; i < queries; ++i)
    for (int64_t j = 0; j < keys; ++j) seen.push_back(j <= i + (how.aligned ? 0 : keys - queries) ? 1 : 0);
  return graph.constant(Tensor::from(Shape{queries, keys}, seen).to(dtype));
}

// `x` [..., T] with `count` more of `value` at its end.
Value with_more(Value x, int64_t count, double value) {
  if (count == 0) return x;
  std::vector<int64_t> dims = x.shape().vector();
  dims.back() = count;
  const Value parts[] = {x, broadcast_to(x.graph().constant(value, {x.dtype(), Shape()}), Shape(dims))};
  return concatenate(parts, x.rank() - 1);
}

Value seen_with(Value a, Value b) { return a ? a * b : b; }

// The bias as [N, groups, queries of a group, S, T].
Value bias_of_heads(LayerContext& context, const Attending& how, Value bias, int64_t queries, int64_t keys) {
  const Shape& shape = bias.shape();
  const int64_t n = shape[0];
  if (shape == Shape{n, queries, keys}) return reshape(bias, Shape{n, 1, 1, queries, keys});
  if (shape != Shape{n, how.heads, queries, keys})
    context.fail("cannot add these numbers to the scores", shape.text(),
                 Shape{n, queries, keys}.text() + ", or with heads " + Shape{n, how.heads, queries, keys}.text());
  return reshape(bias, Shape{n, how.groups, how.heads / how.groups, queries, keys});
}

}  // namespace

Value attend_by_scores(LayerContext& context, const Attending& how, Value q, Value k, Value v, Value mask, const AddedScores& added,
                       const std::string& purpose) {
  if (how.rotary || how.alibi || how.window > 0)
    context.options().fail(how.window > 0 ? "window" : "positions", "is not there where numbers are added to scores or keys to the steps'",
                           "", "neither", "say by the numbers which steps are looked at");
  Graph& graph = context.graph();
  const int64_t n = q.shape()[0], queries = q.shape()[1], keys = k.shape()[1], share = how.heads / how.groups;
  const int64_t more = added.keys ? added.keys.shape()[0] : 0, all = keys + more;
  const Value heads = reshape(by_head(q, how.heads, {}), Shape{n, how.groups, share, queries, how.features});
  const Value key_heads = by_head(k, how.groups, added.keys), value_heads = by_head(v, how.groups, added.values);
  const auto shared = [&](Value x) { return reshape(x, Shape{n, how.groups, 1, all, x.shape()[3]}); };
  const double scale = how.scale > 0 ? how.scale : 1 / std::sqrt(static_cast<double>(how.features));
  Value scores = matmul(heads, shared(key_heads), false, true) * scale;
  if (added.bias) scores = scores + with_more(bias_of_heads(context, how, added.bias, queries, keys), more, 0);
  Value seen;  // 1 where a query looks at a key
  if (how.causal) seen = reshape(with_more(places_seen(graph, how, queries, keys, q.dtype()), more, 1), Shape{1, 1, 1, queries, all});
  if (how.segments) {
    const Value rows = reshape(how.segments, Shape{n, queries, 1}), columns = reshape(how.segments, Shape{n, 1, keys});
    const Value one = graph.constant(1, {q.dtype(), Shape{n, queries, keys}});
    const Value same = where(not_equal(rows, columns), zeros_like(one), one);
    seen = seen_with(seen, reshape(with_more(same, more, 1), Shape{n, 1, 1, queries, all}));
  }
  if (mask) seen = seen_with(seen, reshape(with_more(cast(mask, q.dtype()), more, 1), Shape{n, 1, 1, 1, all}));
  if (seen) scores = where(greater(seen, full_like(seen, 0.5)), scores, graph.constant(kHiddenScore, {q.dtype(), Shape()}));
  Value weights = softmax(scores, 4);
  if (seen) weights = weights * seen;  // a query that looks at no key gets 0
  if (how.dropout > 0 && context.training()) weights = dropped(weights, uniform_like(context, purpose, weights), how.dropout);
  const Value y = reshape(matmul(weights, shared(value_heads)), Shape{n, how.heads, queries, value_heads.shape()[3]});
  return reshape(transpose(y, {0, 2, 1, 3}), Shape{n, queries, how.heads * value_heads.shape()[3]});
}

}  // namespace perigee
