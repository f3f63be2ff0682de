// The short-time Fourier transform of waveforms.
#include "kernels/ops/stft.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "src/graph/build.h"
#include "src/graph/op_list.h"
#include "src/graph/ops/step_counts.h"

namespace perigee {
namespace {

constexpr Option kStftWindow = {"window", "integer", nullptr, "numbers of a frame", {1, 32768}};
constexpr Option kStftHop = {"hop", "integer", nullptr, "from the beginning of a frame to that of the next", {1, 1 << 20}};
constexpr Option kStftFft = {
    "fft", "integer", "0", "size of the transform, a power of two; 0: the least that holds the window", {0, 32768}};
constexpr Option kStftTaper = {
    "taper", "name", "hann", "what a frame is multiplied by", {}, {"none", "hann", "hamming", "blackman", "blackman_harris", "bartlett"}};
constexpr Option kStftSymmetric = {"symmetric", "boolean", "false", "the taper ends as it begins, else it is one period"};
constexpr Option kStftCenter = {"center", "boolean", "true", "frame f has its middle at f * hop, else its beginning"};
constexpr Option kStftPad = {"pad", "name", "zeros", "what stands around the waveform with center", {}, {"zeros", "reflect"}};
constexpr Option kStftPreemphasis = {"preemphasis", "number", "0", "so much of the number before is taken off, within a frame", {0, 1}};
constexpr Option kStftPower = {"power", "integer", "2", "2: power; 1: magnitude; 0: real and imaginary parts", {0, 2}};
constexpr Option kStftAttributes[] = {kStftWindow, kStftHop, kStftFft,         kStftTaper, kStftSymmetric,
                                      kStftCenter, kStftPad, kStftPreemphasis, kStftPower};

StftParams read_stft(const OpCall& call) {
  StftParams p;
  p.window = attr_int(call.attrs, kStftWindow), p.hop = attr_int(call.attrs, kStftHop), p.fft = attr_int(call.attrs, kStftFft);
  const auto least = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(p.window, 4))));
  if (p.fft == 0) p.fft = least;
  if (p.fft < least || !std::has_single_bit(static_cast<uint64_t>(p.fft)))
    throw Error(ErrorKind::model, {.what = "the Fourier transform does not fit the window",
                                   .got = std::to_string(p.fft),
                                   .expected = "a power of two, at least " + std::to_string(least)});
  const auto tapers = kStftTaper.allowed();
  p.taper = static_cast<Taper>(std::find(tapers.begin(), tapers.end(), attr_string(call.attrs, kStftTaper)) - tapers.begin());
  p.symmetric = attr_bool(call.attrs, kStftSymmetric), p.center = attr_bool(call.attrs, kStftCenter);
  p.reflect = p.center && attr_string(call.attrs, kStftPad) == "reflect";
  p.preemphasis = attr_number(call.attrs, kStftPreemphasis);
  p.power = static_cast<int32_t>(attr_int(call.attrs, kStftPower));
  return p;
}

std::vector<Type> infer_stft(const OpCall& call) {
  const Type& x = call.inputs[0];
  check_step_counts(call, x, 2, "stft takes waveforms");
  const StftParams p = read_stft(call);
  const int64_t n = x.shape[0], channels = x.shape[1], frames = stft_frames(p, x.shape[2]), bins = stft_bins(p);
  if (call.inputs.size() > 1 && call.present[1]) {
    const Type& filters = call.inputs[1];
    if (filters.dtype != x.dtype || filters.shape.rank() != 2 || filters.shape[1] != bins || p.power == 0)
      throw Error(ErrorKind::model, {.what = "the filters do not fit the bins",
                                     .got = filters.text() + ", power " + std::to_string(p.power),
                                     .expected = Type{x.dtype, Shape{1, bins}}.text() + " or more rows, power 1 or 2"});
    return {{x.dtype, Shape{n, channels, filters.shape[0], frames}}};
  }
  if (p.power == 0) return {{x.dtype, Shape{n, channels, 2, bins, frames}}};
  return {{x.dtype, Shape{n, channels, bins, frames}}};
}

std::vector<Type> infer_stft_grad(const OpCall& call) {
  check_step_counts(call, call.inputs[1], 3, "stft takes waveforms");
  return {call.inputs[1]};
}

size_t stft_params(const OpCall& call, void* out) {
  const StftParams values = read_stft(call);
  std::memcpy(out, &values, sizeof values);
  return sizeof values;
}

std::vector<Value> stft_vjp(Graph& graph, const Node& node, std::span<const Value> grads) {
  std::vector<Value> operands{grads[0]}, flows(node.inputs.size());
  for (size_t i = 0; i < node.inputs.size(); ++i) operands.push_back(node.in(graph, i));
  flows[0] = graph.apply("stft_grad", operands, node.attrs);
  if (node.inputs.size() > 1 && operands[2]) {
    const Value steps = node.inputs.size() > 2 ? operands[3] : Value();
    const Value bins = graph.apply("stft", {operands[1], Value(), steps}, node.attrs);
    flows[1] = sum_to(matmul(grads[0], bins, false, true), operands[2].shape());
  }
  return flows;
}

// Filters are the same for all examples.
Sliced stft_sliced(const OpCall& call, std::span<const Sliced> inputs) {
  const size_t filters = call.inputs[0].shape.rank() == 3 ? 1 : 2;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (call.present[i] && inputs[i] != (i == filters ? Sliced::whole : inputs[0])) return Sliced::mixed;
  return inputs[0] == Sliced::partial ? Sliced::mixed : inputs[0];
}

double stft_flops(const OpCall& call) {
  const StftParams p = read_stft(call);
  const Shape& x = call.inputs[call.inputs[0].shape.rank() == 3 ? 0 : 1].shape;
  const double frames = static_cast<double>(x[0] * x[1] * stft_frames(p, x[2]));
  return frames * 2.5 * static_cast<double>(p.fft) * std::bit_width(static_cast<uint64_t>(p.fft));
}

constexpr OpDef kStftOps[] = {
    {.name = "stft",
     .doc = "Fourier transform of waveforms [n, channels, steps], frame by frame: [n, channels, bins, frames]. Optional: filters "
            "[rows, bins], whose sums over the bins are the result; how many steps of each example there are [n].",
     .attributes = {.options = kStftAttributes},
     .max_inputs = 3,
     .infer = infer_stft,
     .vjp = stft_vjp,
     .sliced = stft_sliced,
     .params = stft_params,
     .flops = stft_flops,
     .operand_dtypes = OperandDtypes::labels},
    {.name = "stft_grad",
     .doc = "Gradient of stft from dy and x.",
     .attributes = {.options = kStftAttributes},
     .min_inputs = 2,
     .max_inputs = 4,
     .infer = infer_stft_grad,
     .sliced = stft_sliced,
     .params = stft_params,
     .flops = stft_flops,
     .internal = true,
     .derivative = true},
};

}  // namespace

extern const OpList ops_stft;
const OpList ops_stft = op_list(kStftOps);

}  // namespace perigee
