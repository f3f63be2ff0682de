// Convolution, pooling and the fused op, with their gradient ops.
#include "tests/graph/cases.h"

namespace perigee {
namespace {

std::string sizes(const char* key, int64_t a, int64_t b) {
  return std::string("\"") + key + "\":[" + std::to_string(a) + "," + std::to_string(b) + "]";
}

void convolutions(Cases& cases) {
  const int64_t n = cases.pick(1, 3), c = cases.pick(1, 4), o = cases.pick(1, 5), h = cases.pick(5, 8), w = cases.pick(5, 8);
  const int64_t kh = cases.pick(1, 3), kw = cases.pick(1, 3);
  for (const char* relu : {"", R"(,"activation":"relu")"})
    cases.add("conv2d", {real({n, c, h, w}), real({o, c, kh, kw}), real({o})},
              R"({"stride":[1,2],"padding":[1,0,2,1])" + std::string(relu) + "}");
  cases.add("conv2d", {real({n, c, h, w}), real({o, c, kh, kw})});
  cases.add("conv2d", {real({n, c, h, w}), real({o, c, 2, 3}), real({o})}, R"({"dilation":[2,1],"padding":[0,1,1,0]})");
  cases.add("conv2d", {real({n, 2 * c, h, w}), real({2 * o, c, kh, kw}), real({2 * o})}, R"({"groups":2})");
  cases.add("conv2d", {real({n, 3, h, w}), real({3, 1, kh, kw}), real({3})}, R"({"groups":3,"padding":[1,1,1,1]})");
  cases.add("conv2d", {real({2, 20, 12, 12}), real({50, 20, 5, 5}), real({50})}, R"({"stride":[2,2],"activation":"relu"})").gradient =
      false;
  // 3 x 3 windows at stride 1,2 and 3 x 6 at stride 1, so that the input's size follows.
  const std::string input = sizes("input_size", 2 + kh, 5 + kw);
  cases.add("conv2d_grad_input", {real({n, o, 3, 3}), real({o, c, kh, kw})}, R"({"stride":[1,2],)" + input + "}");
  cases.add("conv2d_grad_input", {real({n, o, 5, 4}), real({o, c, kh, kw})}, R"({"stride":[1,2],"padding":[1,1,1,0],)" + input + "}");
  cases.add("conv2d_grad_input", {real({n, 4, 3, 6}), real({4, 3, kh, kw})}, R"({"groups":2,)" + input + "}");
  cases.add("conv2d_grad_weight", {real({n, o, 3, 3}), real({n, c, 2 + kh, 4 + kw})},
            R"({"stride":[1,2],)" + sizes("kernel_size", kh, kw) + "}");
  cases.add("conv2d_grad_weight", {real({n, 4, 5, 4}), real({n, 2, 2 + kh, 2 + kw})},
            R"({"groups":2,"padding":[1,1,1,0],)" + sizes("kernel_size", kh, kw) + "}");
  cases.add("conv2d_grad_input", {real({n, 5, 3, 6}), real({5, 1, kh, kw})}, R"({"groups":5,)" + input + "}");
  cases.add("conv2d_grad_weight", {real({n, 5, 3, 6}), real({n, 5, 2 + kh, 5 + kw})},
            R"({"groups":5,)" + sizes("kernel_size", kh, kw) + "}");
}

void pooled_convolutions(Cases& cases) {
  const int64_t n = cases.pick(1, 3), c = cases.pick(1, 4), o = cases.pick(1, 19), kh = cases.pick(1, 3), kw = cases.pick(1, 3);
  // The convolution gives 5 x 7; windows of 2 x 3 make 2 x 2 of it and leave a row and a column over.
  const std::string pool = sizes("pool", 2, 3) + R"(,"activation":"relu")";
  const Shape x{n, c, 4 + kh, 6 + kw}, w{o, c, kh, kw}, y{n, o, 2, 2};
  const CaseOperand place = integers(Dtype::u8, y, 0, 6);
  cases.add("conv2d_pool", {real(x), real(w), real({o})}, "{" + pool + "}");
  cases.add("conv2d_pool", {real(x), real(w)}, "{" + sizes("pool", 2, 2) + R"(,"stride":[2,1],"padding":[1,2,1,1]})");
  cases.add("conv2d_pool_grad_input", {real(y), real(y), place, real(w)}, "{" + pool + "," + sizes("input_size", 4 + kh, 6 + kw) + "}");
  cases.add("conv2d_pool_grad_weight", {real(y), real(y), place, real(x)},
            "{" + pool + R"(,"bias":true,)" + sizes("kernel_size", kh, kw) + "}");
  // Stride 1 and windows of 2 x 2, with a row or a column over.
  const std::string halved = sizes("pool", 2, 2) + R"(,"activation":"relu",)";
  cases.add("conv2d_pool", {real({n, c, 7, 8}), real({o, c, 3, 3}), real({o})}, "{" + halved + R"("padding":[1,0,0,1]})");
  cases.add("conv2d_pool", {real({n, c, 9, 10}), real({o, c, 3, 5})}, "{" + halved + R"("padding":[0,1,2,1]})");
  const Shape sixths{n, o, 3, 3}, tall{n, o, 4, 5};
  cases.add("conv2d_pool_grad_weight", {real(sixths), real(sixths), integers(Dtype::u8, sixths, 0, 4), real({n, c, 7, 8})},
            "{" + halved + R"("padding":[1,0,0,1],"bias":true,"kernel_size":[3,3]})");
  cases.add("conv2d_pool_grad_weight", {real(tall), real(tall), integers(Dtype::u8, tall, 0, 4), real({n, c, 12, 11})},
            "{" + sizes("pool", 2, 2) + R"(,"padding":[0,1,2,1],"kernel_size":[5,5]})");
  // Groups, strides and borders: a convolution of 4 x 6 with windows of 2 x 2.
  const Shape grouped{n, 4, 6 + kh, 4 + kw}, halves{6, 2, kh, kw}, windows{n, 6, 2, 3};
  const std::string strided = R"({"groups":2,"stride":[2,1],"padding":[1,0,0,1],)" + sizes("pool", 2, 2);
  const CaseOperand in_fours = integers(Dtype::u8, windows, 0, 4);
  cases.add("conv2d_pool", {real(grouped), real(halves), real({6})}, strided + "}");
  cases.add("conv2d_pool_grad_input", {real(windows), real(windows), in_fours, real(halves)},
            strided + "," + sizes("input_size", 6 + kh, 4 + kw) + "}");
  cases.add("conv2d_pool_grad_weight", {real(windows), real(windows), in_fours, real(grouped)},
            strided + "," + sizes("kernel_size", kh, kw) + "}");
  const Shape image{3, 20, 12, 12}, weight{50, 20, 5, 5}, small{3, 50, 2, 2};
  const CaseOperand at = integers(Dtype::u8, small, 0, 4);
  const std::string lenet = R"({"stride":[2,2],"pool":[2,2],"activation":"relu")";
  cases.add("conv2d_pool", {real(image), real(weight), real({50})}, lenet + "}").gradient = false;
  cases.add("conv2d_pool_grad_input", {real(small), real(small), at, real(weight)}, lenet + R"(,"input_size":[12,12]})");
  cases.add("conv2d_pool_grad_weight", {real(small), real(small), at, real(image)}, lenet + R"(,"bias":true,"kernel_size":[5,5]})");
}

void pooling(Cases& cases) {
  const int64_t n = cases.pick(1, 3), c = cases.pick(1, 18), h = cases.pick(6, 8), w = cases.pick(6, 8);
  for (const char* geometry : {R"("kernel":[2,2],"stride":[2,2])", R"("kernel":[3,2],"stride":[1,2],"padding":[1,0,1,1])",
                               R"("kernel":[2,3],"dilation":[2,1],"stride":[2,1])"}) {
    for (const char* kind : {"max", "average", "sum", "pnorm"})
      cases.add("pool2d", {real({n, c, h, w})}, R"({"kind":")" + std::string(kind) + "\"," + geometry + "}");
    cases.add("pool2d", {real({n, c, h, w})}, R"({"kind":"average","count_include_pad":false,)" + std::string(geometry) + "}");
    cases.add("pool2d", {real({n, c, h, w})}, R"({"kind":"pnorm","p":3,)" + std::string(geometry) + "}");
  }
  const Shape x{n, c, 7, 6}, y{n, c, 3, 3};
  const std::string two = R"("kernel":[2,2],"stride":[2,2],"input_size":[7,6]})";
  cases.add("pool2d_grad", {real(y), integers(Dtype::u8, y, 0, 4)}, R"({"kind":"max",)" + two).gradient = false;
  cases.add("pool2d_grad", {real(y)}, R"({"kind":"average",)" + two);
  cases.add("pool2d_grad", {real(y)}, R"({"kind":"sum",)" + two);
  cases.add("pool2d_grad", {real(y), real(x), real(y, 2, 3)}, R"({"kind":"pnorm",)" + two).gradient = false;
}

void make(Cases& cases) {
  convolutions(cases);
  pooled_convolutions(cases);
  pooling(cases);
}

}  // namespace

extern const CaseFamily cases_conv;
const CaseFamily cases_conv = {"conv", make};

}  // namespace perigee
