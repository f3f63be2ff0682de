#include "src/model/model_reader.h"

#include <algorithm>
#include <string_view>

#include "src/core/error.h"

namespace perigee {
namespace {

constexpr std::string_view kState = "state/", kMeanSquare = ".mean_square";

template <class T>
Tensor variance_of(const Tensor& mean, const Tensor& square) {
  Tensor variance(square.dtype(), square.shape());
  for (int64_t i = 0; i < square.elements(); ++i) {
    const auto m = static_cast<double>(mean.data<T>()[i]);
    variance.data<T>()[i] = static_cast<T>(std::max(static_cast<double>(square.data<T>()[i]) - m * m, 0.0));
  }
  return variance;
}

Safetensors with_variances(Safetensors file) {
  for (NamedTensor& state : file.tensors) {
    if (!state.name.starts_with(kState) || !state.name.ends_with(kMeanSquare)) continue;
    const std::string layer = state.name.substr(0, state.name.size() - kMeanSquare.size());
    const Tensor* const mean = file.find(layer + ".mean");
    if (!mean || mean->dtype() != state.tensor.dtype() || mean->shape() != state.tensor.shape() || file.find(layer + ".variance")) continue;
    if (mean->dtype() == Dtype::f32) state = {layer + ".variance", variance_of<float>(*mean, state.tensor)};
    else if (mean->dtype() == Dtype::f64) state = {layer + ".variance", variance_of<double>(*mean, state.tensor)};
  }
  return file;
}

// Files of other programs, which are whole and yet no models here.
void refuse_others(const std::string& path) {
  struct Format {
    std::string_view suffix, program;
  };
  static constexpr Format kOthers[] = {{".onnx", "ONNX"},        {".h5", "Keras"},      {".keras", "Keras"},       {".pt", "PyTorch"},
                                       {".pth", "PyTorch"},      {".pb", "TensorFlow"}, {".tflite", "TensorFlow"}, {".t7", "Torch7"},
                                       {".caffemodel", "Caffe"}, {".prototxt", "Caffe"}};
  for (const Format& other : kOthers)
    if (path.ends_with(other.suffix))
      throw Error(ErrorKind::model, {.where = path,
                                     .what = "is a file of " + std::string(other.program) + ", which Perigee does not read",
                                     .expected = "a .safetensors file that Perigee has written",
                                     .hint = "write the network as a script and train it; the tutorial says how: models/README.md"});
}

}  // namespace

Safetensors parse_model_file(std::span<const std::byte> bytes, const std::string& where) {
  refuse_others(where);
  return with_variances(parse_safetensors(bytes, where));
}

Safetensors read_model_file(const std::string& path) {
  refuse_others(path);
  return with_variances(read_safetensors(path));
}

}  // namespace perigee
