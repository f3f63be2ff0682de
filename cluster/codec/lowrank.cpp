// PowerSGD (Vogels, Karimireddy, Jaggi; NeurIPS 2019): a matrix M of rows x columns as P Q^T of rank r, by one step of the power method
// from the Q of the round before: P = M Q with orthonormal columns, Q = M^T P. Both steps are linear in M, so that P and Q can be
// all-reduced: two passes. A segment that is no matrix, or that P and Q would not make smaller, is sent as it is.
// Size: 16 + 4 r (rows + columns), or 16 + 4 n; of a run of several tensors 16 and the rest of each. Matrices here lie by columns: P is r
// runs of `rows` floats, Q r runs of `columns`.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "cluster/codec/float_codec.h"
#include "cluster/codec/options.h"

namespace perigee {
namespace {

constexpr std::array<Option, 1> kLowrankOwn = {{
    {"rank", "integer", "2", "columns of P and Q", {1, 256}},
}};
constexpr auto kLowrankOptions = join_options(kLowrankOwn, common_options("true"));
constexpr uint64_t kDraws = 0x6c6f7772616e6b;  // tells these draws from those of others
constexpr float kLargestQ = 0x1p100f, kLargestP = 1.001f;
constexpr float kNegligible = 1e-6f;  // a column that lies this close to those before it is rounding errors
constexpr int64_t kTile = 256;

enum LowrankVariant : uint16_t { kRaw = 0, kFactors = 1, kTensors = 2 };

struct Shape {
  int64_t rows = 0, columns = 0, rank = 0;  // rank 0: sent as it is
  int64_t p() const { return rank * rows; }
  int64_t q() const { return rank * columns; }
};

class LowRankCodec final : public Codec {
 public:
  LowRankCodec(const CodecSetup& setup, int64_t rank) : Codec(setup), rank_(rank) {}

  size_t bound(const CodecSegment& segment) const override {
    return kPayloadHeader + static_cast<size_t>(floats_of(segment)) * sizeof(float);
  }
  double bits_per_element(const CodecSegment& segment) const override {
    return segment.count > 0 ? 32.0 * static_cast<double>(floats_of(segment)) / static_cast<double>(segment.count) : 0;
  }
  bool keeps_zero() const override { return false; }
  // Squares of sums of a row's products stay finite.
  float limit() const override { return 0x1p30f; }
  // P, Q and one row of M, of one tensor at a time.
  size_t scratch_bytes(const CodecSegment& segment) const override {
    int64_t most = 0;
    for (const CodecSegment& tensor : tensors_of(segment)) {
      const Shape shape = shape_of(tensor);
      most = std::max(most, shape.p() + shape.q() + (shape.rank > 0 ? shape.columns : 0));
    }
    return static_cast<size_t>(most) * sizeof(float);
  }
  size_t state_floats(const CodecSegment& segment) const override {
    int64_t floats = 0;
    for (const CodecSegment& tensor : tensors_of(segment)) floats += shape_of(tensor).q();
    return static_cast<size_t>(floats);
  }

  int passes() const override { return 2; }
  int64_t part_floats(const CodecSegment& segment, int pass) const override {
    const Shape shape = shape_of(segment);
    if (shape.rank == 0) return pass == 0 ? segment.count : 0;
    return pass == 0 ? shape.p() : shape.q();
  }

  bool make_part(const EncodeCall& call, int pass, std::span<float> parts) const override {
    const Shape shape = shape_of(call.segment);
    if (pass == 0 && !encodable(call)) return false;
    if (shape.rank == 0) {
      if (pass == 0) raw(call, parts.data());
      return true;
    }
    float* p = parts.data();
    float* q = p + shape.p();
    if (pass == 0) {
      float* start = scratch_q(call, shape);
      prepare_q(call, shape, start);
      multiply(call, shape, start, p);
    } else {
      orthogonalise(shape, p);
      multiply_transposed(call, shape, p, q);
      if (feedback()) keep_rest(call, shape, p, q);
    }
    return true;
  }

  void add_parts(const EncodeCall& call, std::span<const float> parts, float weight, std::span<float> sum) const override {
    const Shape shape = shape_of(call.segment);
    if (shape.rank == 0) return loops().add_f32(bytes_of(parts.data()), call.segment.count, weight, sum.data());
    const float* q = parts.data() + shape.p();
    add_product(shape, parts.data(), q, weight, sum.data());
    std::copy(q, q + shape.q(), call.state.begin());
  }

 protected:
  size_t encode_body(const EncodeCall& call, PayloadHeader* header, std::byte* body) const override {
    if (call.segment.tensor_count == 0) {
      const Shape shape = shape_of(call.segment);
      header->detail = static_cast<uint32_t>(shape.rank);
      header->variant = shape.rank > 0 ? kFactors : kRaw;
      return encode_tensor(call, body);
    }
    header->detail = static_cast<uint32_t>(call.segment.tensor_count);
    header->variant = kTensors;
    size_t bytes = 0, state = 0;
    for (const CodecSegment& tensor : tensors_of(call.segment)) {
      const auto at = static_cast<size_t>(tensor.first - call.segment.first), count = static_cast<size_t>(tensor.count);
      const size_t floats = state_floats(tensor);
      EncodeCall one = call;
      one.segment = tensor;
      one.values = call.values.subspan(at, count);
      one.residual = feedback() ? call.residual.subspan(at, count) : call.residual;
      one.state = call.state.subspan(state, floats);
      bytes += encode_tensor(one, body + bytes);
      state += floats;
    }
    return bytes;
  }

  // Everything is looked at before anything is added.
  bool decode_body(const PayloadHeader& header, std::span<const std::byte> body, float weight, const CodecSegment& segment,
                   std::span<float> sum, std::span<std::byte> scratch) const override {
    const Shape shape = shape_of(segment);
    const LowrankVariant variant = segment.tensor_count > 0 ? kTensors : shape.rank > 0 ? kFactors : kRaw;
    const size_t detail = segment.tensor_count > 0 ? segment.tensor_count : static_cast<size_t>(shape.rank);
    if (header.detail != detail || header.variant != variant) return false;
    if (body.size() != static_cast<size_t>(floats_of(segment)) * sizeof(float)) return false;
    size_t at = 0;
    for (const CodecSegment& tensor : tensors_of(segment)) {
      if (!sound(body.data() + at, tensor)) return false;
      at += static_cast<size_t>(floats_of(tensor)) * sizeof(float);
    }
    at = 0;
    for (const CodecSegment& tensor : tensors_of(segment)) {
      add_tensor(body.data() + at, weight, tensor, sum.data() + (tensor.first - segment.first), reinterpret_cast<float*>(scratch.data()));
      at += static_cast<size_t>(floats_of(tensor)) * sizeof(float);
    }
    return true;
  }

  void add_options(Json* json) const override { json->set("rank", rank_); }

 private:
  static const std::byte* bytes_of(const float* x) { return reinterpret_cast<const std::byte*>(x); }
  static float* scratch_p(const EncodeCall& call) { return reinterpret_cast<float*>(call.scratch.data()); }
  static float* scratch_q(const EncodeCall& call, const Shape& shape) { return scratch_p(call) + shape.p(); }
  static float* scratch_row(const EncodeCall& call, const Shape& shape) { return scratch_q(call, shape) + shape.q(); }

  static std::span<const CodecSegment> tensors_of(const CodecSegment& segment) {
    return segment.tensor_count > 0 ? std::span(segment.tensors, segment.tensor_count) : std::span(&segment, 1);
  }

  size_t encode_tensor(const EncodeCall& call, std::byte* body) const {
    const Shape shape = shape_of(call.segment);
    const size_t bytes = static_cast<size_t>(floats_of(call.segment)) * sizeof(float);
    if (shape.rank == 0) {
      const float* v = call.values.data();
      float* residual = feedback() ? call.residual.data() : nullptr;
      if (residual) loops().fold(v, residual, decay(), call.segment.count);
      kFp32.write(loops(), residual ? residual : v, call.segment.count, body, residual);
      return bytes;
    }
    float* p = scratch_p(call);
    float* q = scratch_q(call, shape);
    prepare_q(call, shape, q);
    multiply(call, shape, q, p);
    orthogonalise(shape, p);
    multiply_transposed(call, shape, p, q);
    if (feedback()) keep_rest(call, shape, p, q);
    std::copy(q, q + shape.q(), call.state.begin());
    std::memcpy(body, p, bytes);  // and Q, which follows
    return bytes;
  }

  bool sound(const std::byte* body, const CodecSegment& tensor) const {
    const Shape shape = shape_of(tensor);
    if (shape.rank == 0) return all_finite(kFp32, body, tensor.count);
    const auto within = [&](int64_t begin, int64_t end, float limit) {
      for (int64_t i = begin; i < end; ++i) {
        float x;
        std::memcpy(&x, body + static_cast<size_t>(i) * sizeof x, sizeof x);
        if (!(std::abs(x) <= limit)) return false;
      }
      return true;
    };
    return within(0, shape.p(), kLargestP) && within(shape.p(), shape.p() + shape.q(), kLargestQ);
  }

  // `factors`: scratch, since the body may lie at any address.
  void add_tensor(const std::byte* body, float weight, const CodecSegment& tensor, float* sum, float* factors) const {
    const Shape shape = shape_of(tensor);
    if (shape.rank == 0) return loops().add_f32(body, tensor.count, weight, sum);
    std::memcpy(factors, body, static_cast<size_t>(floats_of(tensor)) * sizeof(float));
    add_product(shape, factors, factors + shape.p(), weight, sum);
  }

  Shape shape_of(const CodecSegment& segment) const {
    if (segment.rows <= 0 || segment.count == 0) return {};
    Shape shape{.rows = segment.rows, .columns = segment.count / segment.rows};
    shape.rank = std::min({rank_, shape.rows, shape.columns});
    return shape.p() + shape.q() < segment.count ? shape : Shape{};
  }
  int64_t floats_of(const CodecSegment& segment) const {
    int64_t floats = 0;
    for (const CodecSegment& tensor : tensors_of(segment)) {
      const Shape shape = shape_of(tensor);
      floats += shape.rank > 0 ? shape.p() + shape.q() : tensor.count;
    }
    return floats;
  }

  void raw(const EncodeCall& call, float* out) const {
    std::copy(call.values.begin(), call.values.end(), out);
    if (!feedback()) return;
    loops().fold(call.values.data(), call.residual.data(), decay(), call.segment.count);
    std::copy(call.residual.begin(), call.residual.end(), out);
    std::fill(call.residual.begin(), call.residual.end(), 0.0f);
  }

  // Row i of M = values + decay * residual; the residual changes only when a round is through.
  const float* row(const EncodeCall& call, const Shape& shape, int64_t i) const {
    const float* x = call.values.data() + i * shape.columns;
    if (!feedback()) return x;
    const float* residual = call.residual.data() + i * shape.columns;
    float* folded = scratch_row(call, shape);
    std::copy(residual, residual + shape.columns, folded);
    loops().fold(x, folded, decay(), shape.columns);
    return folded;
  }

  // The last round's Q, each column of length 1; one that has none is drawn, the same in all workers.
  void prepare_q(const EncodeCall& call, const Shape& shape, float* q) const {
    const PhiloxKey key = philox_key(call.seed, kDraws ^ mix_bits(static_cast<uint64_t>(call.segment.first)));
    std::copy(call.state.begin(), call.state.begin() + shape.q(), q);
    for (int64_t k = 0; k < shape.rank; ++k) {
      float* column = q + k * shape.columns;
      const float length = std::sqrt(loops().dot(column, column, shape.columns));
      if (!(length > kNoScale && length < kLargestQ))
        for (int64_t j = 0; j < shape.columns; ++j) {
          const PhiloxBlock draw = philox4x32({{static_cast<uint32_t>(j), static_cast<uint32_t>(k), static_cast<uint32_t>(call.round),
                                                static_cast<uint32_t>(call.round >> 32)}},
                                              key);
          column[j] = 2 * uniform_from_bits(draw.lane[0]) - 1 + 0x1p-24f;
        }
      scale(column, shape.columns, 1 / std::sqrt(loops().dot(column, column, shape.columns)));
    }
  }

  static void scale(float* x, int64_t n, float by) {
    for (int64_t i = 0; i < n; ++i) x[i] *= by;
  }

  void multiply(const EncodeCall& call, const Shape& shape, const float* q, float* p) const {
    for (int64_t i = 0; i < shape.rows; ++i) {
      const float* m = row(call, shape, i);
      for (int64_t k = 0; k < shape.rank; ++k) p[k * shape.rows + i] = loops().dot(m, q + k * shape.columns, shape.columns);
    }
  }

  void multiply_transposed(const EncodeCall& call, const Shape& shape, const float* p, float* q) const {
    std::fill(q, q + shape.q(), 0.0f);
    for (int64_t i = 0; i < shape.rows; ++i) {
      const float* m = row(call, shape, i);
      for (int64_t k = 0; k < shape.rank; ++k) loops().add_scaled(p[k * shape.rows + i], m, q + k * shape.columns, shape.columns);
    }
  }

  // Gram-Schmidt, twice for the sake of rounding. A column that the others span becomes zero.
  void orthogonalise(const Shape& shape, float* p) const {
    for (int64_t k = 0; k < shape.rank; ++k) {
      float* column = p + k * shape.rows;
      const float before = std::sqrt(loops().dot(column, column, shape.rows));
      for (int turn = 0; turn < 2; ++turn)
        for (int64_t l = 0; l < k; ++l) {
          const float* other = p + l * shape.rows;
          loops().add_scaled(-loops().dot(column, other, shape.rows), other, column, shape.rows);
        }
      const float length = std::sqrt(loops().dot(column, column, shape.rows));
      if (length > kNegligible * before && length > kNoScale) scale(column, shape.rows, 1 / length);
      else std::fill(column, column + shape.rows, 0.0f);
    }
  }

  // sum += weight * P Q^T, a few elements of a row at a time.
  void add_product(const Shape& shape, const float* p, const float* q, float weight, float* sum) const {
    alignas(64) float product[kTile];
    for (int64_t i = 0; i < shape.rows; ++i)
      for (int64_t begin = 0; begin < shape.columns; begin += kTile) {
        const int64_t count = std::min(kTile, shape.columns - begin);
        std::fill_n(product, count, 0.0f);
        for (int64_t k = 0; k < shape.rank; ++k) loops().add_scaled(p[k * shape.rows + i], q + k * shape.columns + begin, product, count);
        loops().add_f32(bytes_of(product), count, weight, sum + i * shape.columns + begin);
      }
  }

  void keep_rest(const EncodeCall& call, const Shape& shape, const float* p, const float* q) const {
    loops().fold(call.values.data(), call.residual.data(), decay(), call.segment.count);
    add_product(shape, p, q, -1, call.residual.data());
  }

  int64_t rank_;
};

std::unique_ptr<Codec> make_lowrank(const Config& config, const CodecSetup& setup) {
  return std::make_unique<LowRankCodec>(setup, config.integer("rank"));
}

}  // namespace

extern const CodecDef codec_lowrank;
const CodecDef codec_lowrank{.name = "lowrank",
                             .doc = "Matrices as products of two narrow ones (PowerSGD); can be all-reduced.",
                             .format = 11,
                             .schema = {.options = kLowrankOptions},
                             .make = make_lowrank};

}  // namespace perigee
