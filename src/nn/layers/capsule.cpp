#include "src/nn/layers/capsule.h"

#include "src/nn/layers/common.h"

namespace perigee {
namespace {

constexpr double kTiny = 1e-7;  // beside a squared length: the slope at the origin stays finite

constexpr const char* kCapsulePositional[] = {"capsules"};
constexpr Option kCapsuleOptions[] = {{"capsules", "integer", nullptr, "of the result", {1, 1 << 16}},
                                      {"size", "integer", "16", "numbers of each", {1, 1 << 16}},
                                      {"routings", "integer", "3", "rounds of routing by agreement", {1, 32}}};

// Every capsule below foretells every capsule above: [N, I, D] to [N, I, J, E].
Value predictions(LayerContext& context, Value u, int64_t above, int64_t size) {
  const int64_t n = u.shape()[0], below = u.shape()[1], d = u.shape()[2];
  const Value weight = context.parameter("weight", Shape{below, d, above * size}, ParameterRole::weight, d, size, Json("xavier"));
  return reshape(matmul(reshape(u, Shape{n, below, 1, d}), weight), Shape{n, below, above, size});
}

std::vector<Value> build_capsule(LayerContext& context, std::span<const Value> inputs) {
  const Value u = inputs[0];
  if (u.rank() != 3) context.fail("needs capsules (count x size)", example_text(u), "", "put primary_capsules in front");
  const int64_t n = u.shape()[0], below = u.shape()[1], above = context.options().integer("capsules"),
                size = context.options().integer("size");
  const Value votes = predictions(context, u, above, size);
  Value logits, v;
  for (int64_t round = 0; round < context.options().integer("routings"); ++round) {
    // The first round takes all votes alike.
    const Value shares = logits ? softmax(logits, 2) : Value();
    const Value sum =
        shares ? reduce_sum(votes * reshape(shares, Shape{n, below, above, 1}), {1}) : reduce_sum(votes, {1}) / static_cast<double>(above);
    v = squash(sum);
    if (round + 1 == context.options().integer("routings")) break;
    const Value agreement = reduce_sum(votes * reshape(v, Shape{n, 1, above, size}), {3});
    logits = logits ? logits + agreement : agreement;
  }
  return {v};
}

}  // namespace

Value squash(Value s) {
  const Value squares = reduce_sum(square(s), {s.rank() - 1}, true) + kTiny;
  return s * (sqrt(squares) / (1.0 + squares));
}

extern const LayerDef layer_capsule;
const LayerDef layer_capsule{
    .name = "capsule",
    .doc =
        "Capsules above capsules, with routing by agreement (Sabour et al. 2017): takes count x size, gives capsules x size; the length "
        "of each lies between 0 and 1.",
    .example = R"({"type": "capsule", "capsules": 3, "size": 4, "routings": 3})",
    .example_input = "[5, 2]",
    .schema = layer_schema(kCapsuleOptions, kCapsulePositional),
    .build = build_capsule};

}  // namespace perigee
