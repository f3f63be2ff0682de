// perigee.h: ops and data of the program, for the whole process.
#include "src/api/handles.h"
#include "src/data/sources/host.h"
#include "src/graph/host_op.h"

using namespace perigee;

namespace {

static_assert(PERIGEE_MAX_OPERANDS == kMaxHostOperands && PERIGEE_MAX_RANK == kMaxRank);

perigee_array array_of(const View& view) {
  perigee_array array{};
  array.dtype = static_cast<perigee_dtype>(static_cast<int>(view.dtype) + PERIGEE_F32);
  array.rank = view.rank;
  std::copy(view.dims, view.dims + view.rank, array.shape);
  array.data = view.data;
  return array;
}

const perigee_op_definition& definition_of(const void* definition) { return *static_cast<const perigee_op_definition*>(definition); }

void forward(const void* definition, const double* options, const View* in, int n_in, const View& out) {
  perigee_array operands[PERIGEE_MAX_OPERANDS];
  for (int i = 0; i < n_in; ++i) operands[i] = array_of(in[i]);
  const perigee_array output = array_of(out);
  definition_of(definition).forward(definition_of(definition).user, operands, options, &output);
}

void backward(const void* definition, const double* options, const View* in, int n_in, const View* out, int n_out) {
  perigee_array operands[PERIGEE_MAX_OPERANDS + 2], gradients[PERIGEE_MAX_OPERANDS];
  for (int i = 0; i < n_in; ++i) operands[i] = array_of(in[i]);
  for (int i = 0; i < n_out; ++i) gradients[i] = array_of(out[i]);
  definition_of(definition).backward(definition_of(definition).user, operands, options, operands + n_out, operands + n_out + 1, gradients);
}

Type infer(const perigee_op_definition& definition, const std::string& name, std::span<const Type> inputs, const double* options) {
  if (!definition.infer) return inputs[0];
  perigee_array operands[PERIGEE_MAX_OPERANDS];
  for (size_t i = 0; i < inputs.size(); ++i) operands[i] = array_of(contiguous_view(nullptr, inputs[i].dtype, inputs[i].shape));
  perigee_array output = operands[0];
  char message[512] = {};
  const int status = definition.infer(definition.user, operands, options, &output, message, sizeof message);
  message[sizeof message - 1] = 0;
  if (status != 0)
    throw Error(ErrorKind::model, {.what = message[0] ? message : "the operands of op '" + name + "' do not fit", .got = inputs[0].text()});
  if (output.rank < 0 || output.rank > PERIGEE_MAX_RANK || output.dtype < PERIGEE_F32 || output.dtype > PERIGEE_BOOL)
    throw Error(ErrorKind::model, {.what = "op '" + name + "' says that its output has a rank or dtype that does not exist"});
  return {static_cast<Dtype>(output.dtype - PERIGEE_F32), Shape(std::vector<int64_t>(output.shape, output.shape + output.rank))};
}

HostOp read_definition(const perigee_op_definition& given) {
  constexpr const char* kHere = "perigee_register_op";
  const std::string name = given.name ? given.name : "";
  if (name.find('.') == std::string::npos) misuse(kHere, "an op's name has a dot", "'" + name + "'", "\"mine.swish\"");
  if (given.operands < 1 || given.operands > PERIGEE_MAX_OPERANDS)
    misuse(kHere, "op '" + name + "' has a number of operands out of range", std::to_string(given.operands), "1 to 8");
  if (given.option_count < 0 || given.option_count > kMaxHostOptions)
    misuse(kHere, "op '" + name + "' has a number of options out of range", std::to_string(given.option_count), "0 to 16");
  require(given.forward != nullptr, kHere, "the definition has no forward function");
  require(given.option_count == 0 || (given.options && given.defaults), kHere, "options and defaults must not be null");
  HostOp op{.name = name, .inputs = given.operands, .whole = given.shared};
  for (int32_t i = 0; i < given.option_count; ++i) {
    require(given.options[i] && std::string_view(given.options[i]) != "name", kHere, "an option has no name of its own");
    op.options.emplace_back(given.options[i]);
    op.defaults.push_back(given.defaults[i]);
  }
  return op;
}

}  // namespace

extern "C" {

perigee_status perigee_register_op(perigee_context* context, const perigee_op_definition* definition) noexcept {
  if (!context) return PERIGEE_USAGE;
  return guard(*context->state, context->message, [&] {
    require(definition != nullptr, "perigee_register_op", "definition must not be null");
    const auto given = read_struct(definition, "perigee_register_op");
    HostOp op = read_definition(given);
    const auto kept = std::make_shared<const perigee_op_definition>(given);  // its functions and user; the texts are op's
    op.infer = [kept, name = op.name](std::span<const Type> inputs, const double* options) { return infer(*kept, name, inputs, options); };
    op.kernel = {.definition = kept.get(), .forward = forward, .backward = given.backward ? backward : nullptr};
    register_host_op(std::move(op));
  });
}

perigee_status perigee_register_source(perigee_context* context, const char* name, perigee_open_source open, void* user) noexcept {
  if (!context) return PERIGEE_USAGE;
  return guard(*context->state, context->message, [&] {
    require(name && *name && open, "perigee_register_source", "name and open must not be null");
    register_host_source(name, [name = std::string(name), open, user]() -> SourcePtr {
      perigee_context inside;
      inside.state = std::make_shared<const ContextState>();
      perigee_source* made = nullptr;
      char message[512] = {};
      const perigee_status status = open(user, &inside, &made, message, sizeof message);
      message[sizeof message - 1] = 0;
      const std::unique_ptr<perigee_source> owned(made);
      if (status == PERIGEE_OK && owned) return owned->source;
      const std::string why = message[0] ? message : inside.message.get();
      throw Error(ErrorKind::data, {.where = "data '" + name + "'",
                                    .what = why.empty() ? "the program's function could not open them" : why,
                                    .got = "status " + std::to_string(status)});
    });
  });
}
}
