#include "src/core/error.h"
#include "src/nn/losses/common.h"

namespace perigee {
namespace {

constexpr Option kPartOptions[] = {{"size", "integer", nullptr, "numbers of the target", {1, 1 << 24}},
                                   {"loss", "loss", nullptr, "of these numbers"},
                                   {"weight", "number", "1", "factor of this part", {0, 1e9}}};
constexpr Schema kPart{.options = kPartOptions};
constexpr Option kCompositeOptions[] = {
    {"parts", "list", nullptr, "in the order of the target's numbers: { size, loss, weight }", {}, {}, nullptr, &kPart}};

Value columns(Value x, int64_t from, int64_t to) { return slice(x, std::array{int64_t{0}, from}, std::array{x.shape()[0], to}); }

int64_t outputs_of(const Json& loss, int64_t size, const std::string& where) {
  return size * loss_named(loss.is_string() ? loss.as_string() : Config(loss, where).string("type")).outputs_per_number;
}

Value build_composite(Graph& graph, const Config& options, Value output, Value target) {
  const Value x = flatten_example(output), y = flatten_example(target);
  const Json* parts = options.raw("parts");
  if (parts == nullptr || !parts->is_array() || parts->as_array().empty())
    options.fail("parts", "must name at least one part", "", "{ { size = 3, loss = \"mse\" }, ... }");
  Value sum;
  int64_t at = 0, from = 0;
  for (size_t i = 0; i < parts->as_array().size(); ++i) {
    const std::string where = options.where() + ": parts[" + std::to_string(i + 1) + "]";
    const Config part(parts->as_array()[i], kPart, where);
    if (part.raw("loss") == nullptr) part.fail("loss", "is missing", "", "a loss, such as \"mse\"");
    const int64_t size = part.integer("size"), outputs = outputs_of(*part.raw("loss"), size, where);
    if (at + size > y.shape()[1] || from + outputs > x.shape()[1])
      throw Error(ErrorKind::model, {.where = where,
                                     .what = "ends behind the last number",
                                     .got = std::to_string(at + size) + " numbers, " + std::to_string(from + outputs) + " outputs",
                                     .expected = "at most " + std::to_string(y.shape()[1]) + " and " + std::to_string(x.shape()[1])});
    Value each = build_loss(graph, *part.raw("loss"), where, columns(x, from, from + outputs), columns(y, at, at + size));
    if (const double weight = part.number("weight"); weight != 1) each = each * weight;
    sum = sum ? sum + each : each;
    at += size;
    from += outputs;
  }
  if (at != y.shape()[1] || from != x.shape()[1])
    options.fail("parts", "leave numbers without a loss", std::to_string(at) + " numbers, " + std::to_string(from) + " outputs",
                 std::to_string(y.shape()[1]) + " and " + std::to_string(x.shape()[1]));
  return sum;
}

}  // namespace

extern const LossDef loss_composite;
const LossDef loss_composite{
    .name = "composite",
    .doc =
        "Losses side by side: each part takes the next numbers of the target and the outputs that belong to them (two for each number "
        "with gaussian_likelihood, else one), and the losses are added. For examples whose columns are of different kinds.",
    .schema = {.options = kCompositeOptions},
    .build = build_composite,
    .example = R"({"type": "composite", "parts": [{"size": 1, "loss": "gaussian_likelihood"},
      {"size": 1, "loss": "mse", "weight": 2}]})",
    .example_output = "[3]",
    .example_target = "pair"};

}  // namespace perigee
