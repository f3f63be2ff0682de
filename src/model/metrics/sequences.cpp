#include "src/model/metrics/sequences.h"

#include "src/model/metrics/rows.h"
#include "src/nn/ctc_decode.h"

namespace perigee {
namespace {

[[noreturn]] void refuse_sequence(const char* name, const Tensor& output, const Tensor& target) {
  throw Error(ErrorKind::model, {.where = std::string("evaluation '") + name + "'",
                                 .what = "goes by sequences of labels",
                                 .got = "outputs " + output.shape().text() + ", targets " + target.shape().text(),
                                 .expected = "outputs [N, classes, steps] and a label for each step, or the loss 'ctc'"});
}

int64_t label_at(const View& target, int64_t place) {
  const double value = element(target, place);
  return value >= 0 && value < 0x1p53 ? static_cast<int64_t>(value) : -1;
}

}  // namespace

void SequenceEvaluation::add(const Tensor& output, const Tensor& target, int64_t, std::span<const double>) {
  refuse_sequence(name_, output, target);
}

void SequenceEvaluation::add_sequences(const SequenceBatch& batch) {
  if (batch.count == 0) return;
  const View output = batch.output.view(), target = batch.target.view();
  const int64_t labels = batch.target.elements() / target.dims[0];
  const bool fits = output.rank == 3 && (task_.blank || (task_.sequence && labels == output.dims[2]));
  if (!fits || !output.contiguous() || !target.contiguous()) refuse_sequence(name_, batch.output, batch.target);
  const int64_t classes = output.dims[1], steps = output.dims[2];
  const int64_t weights = static_cast<int64_t>(batch.weights.size()) / batch.count;  // of each example
  for (int64_t n = 0; n < batch.count; ++n) {
    const auto weight = [&](int64_t step) {
      return weights == 0 ? 1 : batch.weights[static_cast<size_t>(n * weights + (weights == 1 ? 0 : step))];
    };
    Symbols predicted, wanted;
    if (task_.blank) {
      const int64_t there = batch.output_ends.empty() ? steps : batch.output_ends[static_cast<size_t>(n)];
      predicted = ctc_decode(output, n, there, *task_.blank, beams_, 1).at(0).labels;
      for (int64_t i = 0; i < labels && label_at(target, n * labels + i) >= 0; ++i) wanted.push_back(label_at(target, n * labels + i));
    } else {
      for (int64_t t = 0; t < steps; ++t) {
        if (weight(t) == 0) continue;
        int64_t best = 0;
        const auto p = [&](int64_t c) { return element(output, (n * classes + c) * steps + t); };
        for (int64_t c = 1; c < classes; ++c)
          if (p(c) > p(best)) best = c;
        predicted.push_back(best), wanted.push_back(label_at(target, n * labels + t));
      }
    }
    const double own = weights == 1 ? weight(0) : 1;
    if (own > 0) add_pair(predicted, wanted, own);
  }
}

void SequenceEvaluation::merge(const Evaluation& other) {
  auto& from = const_cast<SequenceEvaluation&>(dynamic_cast<const SequenceEvaluation&>(other));  // it is only read
  const std::vector<double*> own = sums(), more = from.sums();
  for (size_t i = 0; i < own.size(); ++i) *own[i] += *more[i];
}

Json SequenceEvaluation::state() const {
  Json list = Json::array();
  for (const double* sum : const_cast<SequenceEvaluation*>(this)->sums()) list.push(count(*sum));
  return Json(Json::Object{{"sums", std::move(list)}});
}

void SequenceEvaluation::restore(const Json& state) {
  const Config config(state, std::string("state of the evaluation '") + name_ + "'", ErrorKind::data);
  const std::vector<double> numbers = number_list(config, "sums");
  const std::vector<double*> own = sums();
  if (numbers.size() != own.size()) config.fail("sums", "has the wrong length", std::to_string(numbers.size()), std::to_string(own.size()));
  for (size_t i = 0; i < own.size(); ++i) *own[i] = numbers[i];
}

}  // namespace perigee
