// Cases of waveforms, frame by frame.
#include "tests/graph/cases.h"

namespace perigee {
namespace {

void make(Cases& cases) {
  const int64_t n = cases.pick(1, 3), c = cases.pick(1, 2), t = cases.pick(20, 40), filters = cases.pick(1, 4);
  const auto counts = [&] { return integers(Dtype::i64, {n}, 0, static_cast<double>(t + 3)); };  // some are more than there are
  cases.add("stft", {real({n, c, t})}, R"({"window":8,"hop":4})");
  cases.add("stft", {real({n, c, t})}, R"({"window":7,"hop":3,"center":false,"taper":"hamming","symmetric":true,"preemphasis":0.9})");
  cases.add("stft", {real({n, c, t})}, R"({"window":8,"hop":5,"pad":"reflect","taper":"blackman","power":0})");
  cases.add("stft", {real({n, c, t})}, R"({"window":6,"hop":2,"fft":16,"taper":"bartlett","power":1})");
  cases.add("stft", {real({n, c, t}), absent(), counts()},
            R"({"window":8,"hop":3,"pad":"reflect","taper":"blackman_harris","preemphasis":0.5})");
  cases.add("stft", {real({n, c, t}), absent(), counts()}, R"({"window":9,"hop":3,"center":false,"taper":"none","power":0})");
  cases.add("stft", {real({n, c, t}), real({filters, 9})}, R"({"window":16,"hop":5})");
  cases.add("stft", {real({n, c, t}), real({filters, 5}, 0.1, 1), counts()}, R"({"window":8,"hop":2,"power":1})");
  cases.add("stft", {real({n, c, 3})}, R"({"window":8,"hop":4,"pad":"reflect"})");  // shorter than a window: mirrored more than once
  cases.add("stft", {real({n, c, 3})}, R"({"window":4,"hop":9,"center":false})");   // one frame, and zeros behind it
  cases.add("stft", {real({1, 1, 300})}, R"({"window":20,"hop":10,"fft":32})");     // more frames than go together
  cases.add("stft", {real({1, 1, 900})}, R"({"window":300,"hop":100})").gradient = false;
  cases.add("stft_grad", {real({n, c, 5, 1 + t / 4}), real({n, c, t})}, R"({"window":8,"hop":4})").gradient = false;
  cases.add("stft_grad", {real({n, c, filters, 1 + t / 4}), real({n, c, t}), real({filters, 5}), counts()}, R"({"window":8,"hop":4})")
      .gradient = false;
  cases.add("stft_grad", {real({n, c, 2, 9, 1 + t / 5}), real({n, c, t})}, R"({"window":12,"hop":5,"power":0,"pad":"reflect"})").gradient =
      false;
}

}  // namespace

extern const CaseFamily cases_stft;
const CaseFamily cases_stft = {"stft", make};

}  // namespace perigee
