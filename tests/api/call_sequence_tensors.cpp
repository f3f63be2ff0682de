// The calls of tensors and functions.
#include "tests/api/call_sequence.h"

namespace {

constexpr size_t kMostTensors = 48;
constexpr unsigned char kCanary = 91;

const perigee_dtype kDtypes[] = {PERIGEE_F32,  PERIGEE_F32, PERIGEE_F32, PERIGEE_F64, PERIGEE_F16,
                                 PERIGEE_BF16, PERIGEE_I32, PERIGEE_I64, PERIGEE_U8,  PERIGEE_BOOL};

struct OpCase {
  const char* name;
  int inputs;
  const char* options;
};
const OpCase kOps[] = {{"add", 2, nullptr},
                       {"mul", 2, nullptr},
                       {"div", 2, ""},
                       {"pow", 2, nullptr},
                       {"mod", 2, nullptr},
                       {"neg", 1, nullptr},
                       {"exp", 1, nullptr},
                       {"sqrt", 1, nullptr},
                       {"round", 1, nullptr},
                       {"less", 2, nullptr},
                       {"logical_and", 2, nullptr},
                       {"where", 3, nullptr},
                       {"cast", 1, R"({"dtype": "i64"})"},
                       {"cast", 1, R"({"dtype": "f32"})"},
                       {"cast", 1, R"({"dtype": "bool"})"},
                       {"cast", 1, R"({"dtype": 3})"},
                       {"matmul", 2, nullptr},
                       {"matmul", 2, R"({"transpose_b": true})"},
                       {"linear", 3, R"({"activation": "relu"})"},
                       {"conv2d", 2, R"({"padding": [1, 1, 1, 1], "stride": [1, 2]})"},
                       {"conv2d", 3, R"({"stride": [0, -1]})"},
                       {"pool2d", 1, R"({"kind": "max", "kernel": [2, 2], "stride": [1, 1]})"},
                       {"pool2d", 1, R"({"kind": "average", "kernel": [3, 1], "padding": [1, 1, 0, 0]})"},
                       {"softmax", 1, R"({"axis": -1})"},
                       {"log_softmax", 1, nullptr},
                       {"cross_entropy", 2, nullptr},
                       {"layer_norm", 3, nullptr},
                       {"layer_norm", 1, R"({"epsilon": 1e-5})"},
                       {"batch_norm", 3, nullptr},
                       {"lrn", 1, R"({"size": 3})"},
                       {"reduce_sum", 1, nullptr},
                       {"reduce_sum", 1, R"({"axes": [0], "keep": true})"},
                       {"reduce_mean", 1, R"({"axes": [-1, 0]})"},
                       {"reduce_max", 1, R"({"axes": [9]})"},
                       {"reduce_prod", 1, R"({"axes": [1]})"},
                       {"arg_max", 1, R"({"axis": 1})"},
                       {"cumulative_sum", 1, R"({"axis": 0, "reverse": true})"},
                       {"arg_sort", 1, R"({"descending": true, "count": 2})"},
                       {"arg_sort", 1, nullptr},
                       {"take_along", 2, nullptr},
                       {"put_along", 2, R"({"size": 3})"},
                       {"take", 2, R"({"axis": 0})"},
                       {"scatter_add", 2, R"({"size": 5})"},
                       {"one_hot", 1, R"({"depth": 3, "dtype": "f32"})"},
                       {"nonzero", 1, nullptr},
                       {"masked_select", 2, nullptr},
                       {"masked_assign", 3, nullptr},
                       {"reshape", 1, R"({"shape": [-1]})"},
                       {"reshape", 1, R"({"shape": [2, -1, 2]})"},
                       {"transpose", 1, nullptr},
                       {"transpose", 1, R"({"order": [1, 0]})"},
                       {"slice", 1, R"({"start": [1], "stop": [-1], "step": [2]})"},
                       {"broadcast_to", 1, R"({"shape": [2, 3, 2]})"},
                       {"concatenate", 2, R"({"axis": 0})"},
                       {"concatenate", 3, R"({"axis": -1})"},
                       {"pad", 1, R"({"before": [1, 0], "after": [0, 2], "interior": [1, 0]})"},
                       {"full", 0, R"({"shape": [2, 3], "value": 0.5, "dtype": "f64"})"},
                       {"full_like", 1, R"({"value": 2})"},
                       {"rand", 0, R"({"shape": [3, 2]})"},
                       {"randint", 0, R"({"shape": [4], "low": -2, "high": 3})"},
                       {"randperm", 0, R"({"n": 3})"},
                       {"solve", 2, nullptr},
                       {"inv", 1, nullptr},
                       {"qr", 1, nullptr},
                       {"svd", 1, nullptr},
                       {"eigh", 1, nullptr},
                       {"det", 1, nullptr},
                       {"fused", 1, R"({"code": []})"},
                       {"parameter", 0, nullptr},
                       {"conv2d_grad_input", 2, nullptr},
                       {"random_uniform", 1, nullptr},
                       {"host", 1, R"({"name": "nothing.here"})"},
                       {"adds", 2, nullptr},
                       {"add", 2, "[1"},
                       {"reduce_sum", 1, R"({"axes": "x"})"}};

const char* of(const perigee_context* h) { return h ? perigee_context_message(h) : nullptr; }
const char* of(const perigee_tensor* h) { return h ? perigee_tensor_message(h) : nullptr; }
const char* of(const perigee_trace* h) { return h ? perigee_trace_message(h) : nullptr; }
const char* of(const perigee_function* h) { return h ? perigee_function_message(h) : nullptr; }

}  // namespace

std::span<const CallSequence::Call> CallSequence::tensor_calls() {
  using C = CallSequence;
  static constexpr Call kCalls[] = {&C::make_tensor, &C::make_tensor,   &C::borrow_tensor, &C::make_number,   &C::look_at_tensor,
                                    &C::window,      &C::window,        &C::apply,         &C::apply,         &C::apply,
                                    &C::apply,       &C::apply,         &C::apply_into,    &C::assign,        &C::begin_trace,
                                    &C::argument,    &C::argument,      &C::differentiate, &C::differentiate, &C::end_trace,
                                    &C::end_trace,   &C::call_function, &C::call_function, &C::free_tensors};
  return kCalls;
}

void CallSequence::keep_tensors(std::span<perigee_tensor*> made) {
  for (perigee_tensor* each : made)
    if (each) tensors_.push_back(each);
  while (tensors_.size() > kMostTensors) free_any(&tensors_, perigee_tensor_free);
}

void CallSequence::make_tensor() {
  perigee_context* context = any(contexts_);
  const perigee_dtype dtype = rarely() ? static_cast<perigee_dtype>(below(12)) : one_of(kDtypes);
  const auto rank = rarely() ? static_cast<int32_t>(below(12)) - 2 : static_cast<int32_t>(below(5));
  int64_t shape[12], elements = 1;
  for (int64_t& size : shape)
    size = rarely() ? static_cast<int64_t>(below(1000)) * (INT64_MAX / 1000) - 1 : static_cast<int64_t>(below(4)) + (below(4) > 0);
  for (int32_t i = 0; i < rank; ++i) elements = shape[i] >= 0 && shape[i] < 5 ? elements * shape[i] : 0;
  unsigned char numbers[4096];
  for (size_t i = 0; i < 64; ++i) numbers[i] = byte();
  for (size_t i = 64; i < sizeof numbers; ++i) numbers[i] = dtype == PERIGEE_BOOL ? numbers[i % 7] & 1 : numbers[i % 61];
  if (dtype == PERIGEE_BOOL)
    for (size_t i = 0; i < 64; ++i) numbers[i] &= 1;
  static constexpr size_t kBytes[] = {0, 4, 8, 2, 2, 4, 8, 1, 1, 0, 0, 0, 0};
  const size_t bytes = static_cast<size_t>(elements) * kBytes[dtype];
  if (bytes > sizeof numbers) return;
  perigee_tensor* made = nullptr;
  const bool zeros = below(4) == 0;
  const perigee_status status = perigee_tensor_create(context, dtype, rank, rarely() ? nullptr : shape, zeros ? nullptr : numbers,
                                                      zeros ? 0 : bytes + (rarely() ? 1 : 0), &made);
  check(status, of(context));
  require((made != nullptr) == (status == PERIGEE_OK), "a handle exactly when the call succeeds");
  keep_tensors({&made, 1});
}

void CallSequence::borrow_tensor() {
  perigee_context* context = any(contexts_);
  auto& memory = *lent_.emplace_back(std::make_unique<std::vector<float>>(64, 1.f));
  // Strides that stay within the 64 numbers, from the one in the middle, or far out where they are refused.
  const int64_t shape[2] = {static_cast<int64_t>(below(4)), static_cast<int64_t>(below(4))};
  int64_t strides[2] = {static_cast<int64_t>(below(9)) - 4, static_cast<int64_t>(below(9)) - 4};
  const bool far = rarely() && shape[0] > 1 && shape[1] > 0;
  if (far) strides[0] = INT64_MAX / 2;
  const auto release = [](void* user) { ++*static_cast<int64_t*>(user); };
  perigee_tensor* made = nullptr;
  const perigee_status status =
      perigee_tensor_borrow(context, PERIGEE_F32, 2, shape, strides, memory.data() + 32, release, &released_, &made);
  check(status, of(context));
  require(!far || !made, "strides that lead out of memory are refused");
  borrowed_ += made != nullptr;
  keep_tensors({&made, 1});
}

void CallSequence::make_number() {
  perigee_context* context = any(contexts_);
  static constexpr double kNumbers[] = {0, 1, -2, 0.5, 1e300, -1e-300, 255, 3e9};
  perigee_tensor* made = nullptr;
  const perigee_status status = perigee_tensor_number(context, one_of(kNumbers), &made);
  check(status, of(context));
  keep_tensors({&made, 1});
}

void CallSequence::look_at_tensor() {
  perigee_tensor* tensor = any(tensors_);
  auto view = sized<perigee_view>();
  const size_t size = view.size;
  perigee_status status = perigee_tensor_view(tensor, rarely() ? nullptr : &view);
  check(status, of(tensor));
  if (status != PERIGEE_OK || size != sizeof(perigee_view)) return;
  static constexpr int64_t kBytes[] = {0, 4, 8, 2, 2, 4, 8, 1, 1};
  const auto bytes = static_cast<size_t>(view.elements * kBytes[view.dtype]);
  if (bytes > 1 << 20) return;
  std::vector<unsigned char> room(bytes + 2, kCanary);
  const size_t asked = rarely() ? bytes + 1 : bytes;
  status = perigee_tensor_read(tensor, room.data(), asked);
  check(status, of(tensor));
  require(room[bytes] == kCanary && room[bytes + 1] == kCanary, "nothing is written past the end");
  require(asked == bytes || status != PERIGEE_OK, "a wrong size is refused");
}

void CallSequence::window() {
  perigee_tensor* tensor = any(tensors_);
  perigee_index entries[20];
  const auto count = static_cast<int32_t>(rarely() ? below(20) : below(4));
  const auto place = [&] { return rarely() ? (below(2) ? INT64_MIN : PERIGEE_END) : static_cast<int64_t>(below(9)) - 4; };
  for (perigee_index& each : entries) each = {static_cast<int32_t>(rarely() ? below(9) : below(4)), place(), place(), place()};
  perigee_tensor* made = nullptr;
  const perigee_status status = perigee_tensor_window(tensor, entries, count, &made);
  check(status, of(tensor));
  keep_tensors({&made, 1});
}

void CallSequence::apply() {
  perigee_context* context = any(contexts_);
  const OpCase& op = one_of(kOps);
  perigee_tensor* inputs[6];
  for (perigee_tensor*& each : inputs) each = any(tensors_);
  const int32_t count = rarely() ? static_cast<int32_t>(below(8)) - 1 : op.inputs;
  perigee_tensor* outputs[3] = {};
  const perigee_status status = perigee_op(context, op.name, rarely() ? nullptr : inputs, std::min(count, int32_t{6}), op.options, outputs,
                                           static_cast<int32_t>(below(4)));
  check(status, of(context));
  require(status == PERIGEE_OK || (!outputs[0] && !outputs[1] && !outputs[2]), "a failure hands nothing out");
  keep_tensors(outputs);
}

void CallSequence::apply_into() {
  perigee_tensor* target = any(tensors_);
  const OpCase& op = kOps[below(12)];
  perigee_tensor* inputs[3] = {below(2) ? target : any(tensors_), any(tensors_), any(tensors_)};
  const perigee_status status = perigee_op_into(target, op.name, inputs, rarely() ? static_cast<int32_t>(below(4)) - 1 : op.inputs);
  check(status, of(target));
}

void CallSequence::assign() {
  perigee_tensor* target = any(tensors_);
  const perigee_status status = perigee_tensor_assign(target, any(tensors_));
  check(status, of(target));
}

void CallSequence::begin_trace() {
  perigee_context* context = any(contexts_);
  if (traces_.size() > 3) free_any(&traces_, perigee_trace_free);
  perigee_trace* made = nullptr;
  const perigee_status status = perigee_trace_begin(context, &made);
  keep(status, of(context), made, &traces_);
  if (made) argument();
}

void CallSequence::argument() {
  perigee_trace* trace = any(traces_);
  perigee_tensor* made = nullptr;
  const perigee_status status = perigee_trace_argument(trace, any(tensors_), &made);
  check(status, of(trace));
  keep_tensors({&made, 1});
}

void CallSequence::differentiate() {
  perigee_tensor* root = any(tensors_);
  perigee_tensor *targets[2] = {any(tensors_), any(tensors_)}, *made[2] = {};
  const perigee_status status = perigee_gradients(root, targets, static_cast<int32_t>(below(3)), made);
  check(status, of(root));
  keep_tensors(made);
}

void CallSequence::end_trace() {
  perigee_trace* trace = any(traces_);
  perigee_tensor* results[3] = {any(tensors_), any(tensors_), any(tensors_)};
  auto options = sized<perigee_function_options>();
  const int32_t donated[2] = {static_cast<int32_t>(below(4)) - 1, 0};
  options.threads = static_cast<int32_t>(below(3)) - (rarely() ? 2 : 0);
  options.donated = donated;
  options.donated_count = static_cast<int32_t>(below(3));
  perigee_function* made = nullptr;
  const perigee_status status = perigee_trace_end(trace, results, static_cast<int32_t>(below(4)), below(2) ? nullptr : &options, &made);
  keep(status, of(trace), made, &functions_);
  if (functions_.size() > 4) free_any(&functions_, perigee_function_free);
}

void CallSequence::call_function() {
  perigee_function* function = any(functions_);
  perigee_tensor *arguments[3] = {any(tensors_), any(tensors_), any(tensors_)}, *made[3] = {};
  const perigee_status status =
      perigee_function_call(function, arguments, static_cast<int32_t>(below(4)), made, static_cast<int32_t>(below(4)));
  check(status, of(function));
  keep_tensors(made);
}

void CallSequence::free_tensors() {
  if (rarely()) free_any(&traces_, perigee_trace_free);
  if (rarely()) free_any(&functions_, perigee_function_free);
  for (size_t n = below(6); n > 0; --n) free_any(&tensors_, perigee_tensor_free);
}
