#include "src/model/model_reader.h"

#include <algorithm>
#include <cstring>
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

// With the length of a header that is in the file, which no text has: its letters make a length beyond any file's.
bool begins_as_model(std::span<const std::byte> bytes) {
  uint64_t length = 0;
  if (bytes.size() < sizeof length) return false;
  std::memcpy(&length, bytes.data(), sizeof length);
  return length <= bytes.size() - sizeof length;
}

// A file that belongs in another place of the command line is told from a damaged model by its name.
void refuse_other_kinds(const std::string& path) {
  const std::string train = "train it first, and give the run folder: perigee train " + path;
  const std::string order = "the model comes first, then the data";
  struct Kind {
    std::string_view suffix, name;
    std::string hint;
  };
  const Kind kinds[] = {{".lua", "a script", train},   {".yaml", "a job", train},
                        {".yml", "a job", train},      {".json", "JSON", "where it is a job, " + train + "; where it is data, " + order},
                        {".jsonl", "a table", order},  {".csv", "a table", order},
                        {".csv.gz", "a table", order}, {".tsv", "a table", order},
                        {".npy", "an array", order},   {".npz", "arrays", order},
                        {".png", "a picture", order},  {".jpg", "a picture", order},
                        {".jpeg", "a picture", order}, {".txt", "a text", order}};
  for (const Kind& kind : kinds)
    if (path.ends_with(kind.suffix))
      throw Error(ErrorKind::usage, {.where = path,
                                     .what = "is no trained model",
                                     .got = std::string(kind.name),
                                     .expected = "a model.safetensors, or the folder of a finished run",
                                     .hint = kind.hint});
}

}  // namespace

Safetensors parse_model_file(std::span<const std::byte> bytes, const std::string& where) {
  refuse_others(where);
  if (!begins_as_model(bytes)) refuse_other_kinds(where);
  return with_variances(parse_safetensors(bytes, where));
}

Safetensors read_model_file(const std::string& path) {
  refuse_others(path);
  return with_variances(read_safetensors(path));
}

}  // namespace perigee
