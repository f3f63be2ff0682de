#include "src/tensor/tensor.h"

#include <gtest/gtest.h>

#include <cmath>

#include "src/core/error.h"
#include "tests/core/refusal.h"

namespace perigee {
namespace {

TEST(Shape, RefusesWhatCannotBeCounted) {
  EXPECT_THROW(Shape({1, -1}), Error);
  EXPECT_THROW(Shape(std::vector<int64_t>(9, 1)), Error);
  EXPECT_THROW((Shape{INT64_MAX, 2}), Error);
  EXPECT_THROW((Shape{0, INT64_MAX, 2}), Error) << "empty, yet its strides cannot be counted";
  EXPECT_THROW((Shape{2, 1}.with(1, kMaxElements)), Error);
  EXPECT_EQ((Shape{kMaxElements, 0}.elements()), 0);
  EXPECT_EQ((Shape{kMaxElements}.elements()), kMaxElements);
  EXPECT_EQ(Shape{}.elements(), 1);
  EXPECT_EQ((Shape{32, 1, 28}.text()), "32x1x28");
  EXPECT_EQ((Type{Dtype::f32, {32, 10}}.text()), "f32[32x10]");
}

TEST(Shape, Broadcasts) {
  EXPECT_EQ(broadcast({4, 1, 3}, {5, 1}), (Shape{4, 5, 3}));
  EXPECT_EQ(broadcast({}, {2}), (Shape{2}));
  EXPECT_EQ(broadcast({0}, {1}), (Shape{0}));
  EXPECT_THROW(broadcast({3}, {4}), Error);
}

TEST(Shape, DtypeNamesRoundTrip) {
  for (Dtype d : {Dtype::f32, Dtype::f64, Dtype::f16, Dtype::bf16, Dtype::i32, Dtype::i64, Dtype::u8, Dtype::boolean})
    EXPECT_EQ(dtype_from_name(dtype_name(d)), d);
  EXPECT_THROW(dtype_from_name("f31"), Error);
}

TEST(Tensor, IsZeroFilledAlignedAndContiguous) {
  const Tensor t(Dtype::f32, {3, 5});
  EXPECT_EQ(reinterpret_cast<uintptr_t>(t.data<float>()) % 64, 0u);
  for (int i = 0; i < 15; ++i) EXPECT_EQ(t.data<float>()[i], 0.f);
  EXPECT_TRUE(t.view().contiguous());
  EXPECT_THROW(Tensor(Dtype::f64, Shape{INT64_MAX}), Error);
  EXPECT_THROW(Tensor(Dtype::f32, Shape{int64_t{1} << 60}), Error);
}

TEST(Tensor, WindowsShareStorage) {
  const Tensor t = Tensor::from<float>({4, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
  const Tensor rows = t.rows(1, 3);
  EXPECT_EQ(rows.shape(), (Shape{2, 2}));
  EXPECT_EQ(rows.data<float>()[0], 2.f);
  rows.data<float>()[0] = 9;
  EXPECT_EQ(t.data<float>()[2], 9.f);
  EXPECT_EQ(t.reshape({8}).data<float>()[2], 9.f);
  EXPECT_THROW(t.reshape({7}), Error);
  const Tensor copy = t.clone();
  copy.data<float>()[0] = 5;
  EXPECT_EQ(t.data<float>()[0], 0.f);
}

TEST(Storage, RefusesMoreThanCanBeAddressed) {
  EXPECT_HAS(refusal(ErrorKind::resources, [] { Storage(SIZE_MAX); }), "not enough memory; got 2^63 bytes or more");
}

TEST(Storage, MoveLeavesSourceEmpty) {
  Storage a(100);
  Storage b(std::move(a));
  EXPECT_EQ(a.data(), nullptr);
  EXPECT_EQ(b.bytes(), 100u);
}

TEST(Tensor, ConvertsBetweenTypes) {
  const Tensor t = Tensor::from<double>({6}, {1.9, -1.9, 300, NAN, 1e30, 0});
  EXPECT_EQ(t.to(Dtype::u8).data<uint8_t>()[2], 255);
  EXPECT_EQ(t.to(Dtype::u8).data<uint8_t>()[1], 0);
  EXPECT_EQ(t.to(Dtype::i32).data<int32_t>()[1], -1);
  EXPECT_EQ(t.to(Dtype::i32).data<int32_t>()[3], 0);
  EXPECT_EQ(t.to(Dtype::i64).data<int64_t>()[4], INT64_MAX);
  EXPECT_EQ(t.to(Dtype::boolean).data<uint8_t>()[5], 0);
  EXPECT_EQ(t.to(Dtype::boolean).data<uint8_t>()[0], 1);
  const Tensor exact = Tensor::from<float>({4}, {1.5f, -0.25f, 65504.f, 0.f});
  for (Dtype half : {Dtype::f16, Dtype::f64}) {
    const Tensor back = exact.to(half).to(Dtype::f32);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(back.data<float>()[i], exact.data<float>()[i]);
  }
  EXPECT_EQ(exact.to(Dtype::bf16).to(Dtype::f32).data<float>()[1], -0.25f);
}

}  // namespace
}  // namespace perigee
