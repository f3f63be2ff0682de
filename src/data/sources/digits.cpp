// {"type": "digits"}: digits 0 to 9 as strokes, each example with its own affine map, elastic waves, pen width and wobbling points.
// A pure function of (seed, epoch if endless, index), 28x28 like MNIST.
#include "src/data/sources/digits.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "src/data/transform.h"

namespace perigee {
namespace {

constexpr int kSide = 28;
constexpr uint64_t kDigitsStream = 0xD161;

struct Point {
  float x, y;
};

// Control points on a unit square, y downwards; a negative x lifts the pen. Catmull-Rom curves run through them.
struct Glyph {
  int count;
  Point points[16];
};
constexpr Point kLift = {-1, 0};
constexpr Glyph kGlyphs[10] = {
    {9, {{.50f, .08f}, {.26f, .22f}, {.18f, .52f}, {.28f, .82f}, {.50f, .92f}, {.72f, .80f}, {.82f, .50f}, {.74f, .20f}, {.50f, .08f}}},
    {3, {{.36f, .24f}, {.55f, .08f}, {.53f, .92f}}},
    {8, {{.22f, .28f}, {.34f, .11f}, {.60f, .09f}, {.74f, .28f}, {.62f, .50f}, {.22f, .90f}, {.50f, .87f}, {.80f, .88f}}},
    {9, {{.22f, .16f}, {.48f, .08f}, {.72f, .22f}, {.62f, .42f}, {.42f, .48f}, {.68f, .56f}, {.76f, .74f}, {.54f, .92f}, {.22f, .84f}}},
    {7, {{.32f, .08f}, {.24f, .34f}, {.20f, .56f}, {.82f, .56f}, kLift, {.66f, .30f}, {.62f, .94f}}},
    {9, {{.76f, .10f}, {.50f, .10f}, {.32f, .12f}, {.28f, .44f}, {.54f, .40f}, {.76f, .56f}, {.74f, .80f}, {.48f, .92f}, {.22f, .84f}}},
    {9, {{.66f, .08f}, {.40f, .26f}, {.25f, .58f}, {.32f, .86f}, {.56f, .92f}, {.74f, .74f}, {.64f, .54f}, {.42f, .54f}, {.28f, .72f}}},
    {4, {{.20f, .12f}, {.50f, .13f}, {.80f, .11f}, {.42f, .92f}}},
    {11,
     {{.64f, .20f},
      {.46f, .09f},
      {.28f, .24f},
      {.46f, .44f},
      {.70f, .64f},
      {.68f, .86f},
      {.46f, .92f},
      {.26f, .78f},
      {.38f, .56f},
      {.66f, .34f},
      {.64f, .20f}}},
    {9, {{.72f, .30f}, {.52f, .10f}, {.30f, .20f}, {.30f, .42f}, {.52f, .52f}, {.70f, .40f}, {.74f, .20f}, {.68f, .56f}, {.54f, .92f}}},
};

// The distortion of one example: an affine map, then two waves in each direction.
struct Warp {
  float a, b, c, d, x0, y0;
  float amplitude[4], frequency[4], phase[4];

  explicit Warp(Draw& draw) {
    const float angle = draw.between(-.28f, .28f), shear = draw.between(-.25f, .25f);
    const float sx = draw.between(12.5f, 19.5f), sy = draw.between(17.f, 21.5f);
    a = sx * std::cos(angle), b = sx * (shear * std::cos(angle) - std::sin(angle));
    c = sy * std::sin(angle), d = sy * (shear * std::sin(angle) + std::cos(angle));
    x0 = 13.5f + draw.between(-1.5f, 1.5f), y0 = 13.5f + draw.between(-1.5f, 1.5f);
    for (int i = 0; i < 4; ++i) {
      amplitude[i] = draw.between(-1.1f, 1.1f);
      frequency[i] = draw.between(.15f, .45f);
      phase[i] = draw.between(0, 6.2831853f);
    }
  }

  Point operator()(Point p) const {
    const float u = p.x - .5f, v = p.y - .5f;
    Point q{x0 + a * u + b * v, y0 + c * u + d * v};
    const float dx =
        amplitude[0] * std::sin(frequency[0] * q.y + phase[0]) + .5f * amplitude[1] * std::sin(2 * frequency[1] * q.x + phase[1]);
    const float dy =
        amplitude[2] * std::sin(frequency[2] * q.x + phase[2]) + .5f * amplitude[3] * std::sin(2 * frequency[3] * q.y + phase[3]);
    return {q.x + dx, q.y + dy};
  }
};

// Darkens what lies within `radius` of the segment p-q, with a soft edge of one pixel.
void draw_segment(float* image, Point p, Point q, float radius) {
  const float reach = radius + .5f;
  const int left = std::max(0, static_cast<int>(std::floor(std::min(p.x, q.x) - reach)));
  const int right = std::min(kSide - 1, static_cast<int>(std::ceil(std::max(p.x, q.x) + reach)));
  const int top = std::max(0, static_cast<int>(std::floor(std::min(p.y, q.y) - reach)));
  const int bottom = std::min(kSide - 1, static_cast<int>(std::ceil(std::max(p.y, q.y) + reach)));
  const float dx = q.x - p.x, dy = q.y - p.y, length2 = std::max(dx * dx + dy * dy, 1e-6f);
  for (int y = top; y <= bottom; ++y)
    for (int x = left; x <= right; ++x) {
      const float px = static_cast<float>(x) - p.x, py = static_cast<float>(y) - p.y;
      const float t = std::clamp((px * dx + py * dy) / length2, 0.f, 1.f);
      const float ex = px - t * dx, ey = py - t * dy;
      const float ink = std::clamp(reach - std::sqrt(ex * ex + ey * ey), 0.f, 1.f);
      image[y * kSide + x] = std::max(image[y * kSide + x], ink);
    }
}

Point catmull_rom(Point p0, Point p1, Point p2, Point p3, float t) {
  const auto one = [t](float a, float b, float c, float d) {
    return .5f * (2 * b + t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a))));
  };
  return {one(p0.x, p1.x, p2.x, p3.x), one(p0.y, p1.y, p2.y, p3.y)};
}

// One stroke through points[first..last].
void draw_stroke(float* image, const Point* points, int first, int last, const Warp& warp, float radius) {
  constexpr int kPieces = 5;
  for (int i = first; i < last; ++i) {
    const Point p0 = points[std::max(i - 1, first)], p1 = points[i], p2 = points[i + 1], p3 = points[std::min(i + 2, last)];
    Point from = warp(p1);
    for (int piece = 1; piece <= kPieces; ++piece) {
      const Point to = warp(catmull_rom(p0, p1, p2, p3, static_cast<float>(piece) / kPieces));
      draw_segment(image, from, to, radius);
      from = to;
    }
  }
}

class Digits : public DataSource {
 public:
  Digits(const DigitsOptions& options, std::string name) : options_(options), name_(std::move(name)) {
    fields_.push_back({.name = "x", .dtype = Dtype::f32, .shape = {1, kSide, kSide}});
    fields_.push_back({.name = "y", .dtype = Dtype::i64, .shape = {}, .classes = 10});
  }

  int64_t size() const override { return options_.size; }
  const std::vector<Field>& fields() const override { return fields_; }
  SourceTraits traits() const override {
    return {.description = name_ + " (" + std::to_string(options_.size) + (options_.endless ? " new" : "") + " drawn examples, seed " +
                           std::to_string(options_.seed) + ")",
            .fixed = !options_.endless};
  }

  void read(const ReadKey& key, std::span<std::byte* const> slots) const override {
    // The source's own seed: the same data whatever the run's seed is.
    Draw draw({.index = key.index, .epoch = options_.endless ? key.epoch : 0, .seed = options_.seed}, kDigitsStream);
    const int64_t digit = draw.integer(10);
    const Glyph& glyph = kGlyphs[digit];
    const Warp warp(draw);
    const float radius = draw.between(.75f, 1.5f);
    Point points[16];
    for (int i = 0; i < glyph.count; ++i) {
      points[i] = glyph.points[i];
      if (points[i].x >= 0) points[i] = {points[i].x + draw.between(-.045f, .045f), points[i].y + draw.between(-.045f, .045f)};
    }
    auto* image = reinterpret_cast<float*>(slots[0]);
    std::fill(image, image + kSide * kSide, 0.f);
    for (int first = 0, i = 0; i <= glyph.count; ++i)
      if (i == glyph.count || points[i].x < 0) {
        draw_stroke(image, points, first, i - 1, warp, radius);
        first = i + 1;
      }
    for (int i = 0; i < kSide * kSide; ++i) image[i] *= options_.scale;
    std::memcpy(slots[1], &digit, sizeof digit);
  }

 private:
  DigitsOptions options_;
  std::string name_;
  std::vector<Field> fields_;
};

SourcePtr open_digits_source(const Config& config, const std::string&) {
  const bool test = config.choice("part") == "test";
  DigitsOptions options;
  options.size = config.integer_in("size", 1, int64_t{1} << 40, test ? 10000 : 60000);
  options.seed = static_cast<uint64_t>(config.integer("seed", test ? 2 : 1));
  options.endless = config.boolean("endless", !test);
  options.scale = static_cast<float>(config.number("scale", 1));
  return open_digits(options, "digits");
}

}  // namespace

SourcePtr open_digits(const DigitsOptions& options, const std::string& name) { return std::make_shared<Digits>(options, name); }

namespace {

constexpr Option kDigitsOptions[] = {{"part", "name", "train", "which of the two", {}, {"train", "test"}},
                                     {"size", "integer", "60000, of the test part 10000", "examples of an epoch", {1, 1099511627776}},
                                     {"seed", "integer", "1, of the test part 2", "of the strokes"},
                                     {"endless", "boolean", "true for the training part", "other digits every epoch"},
                                     {"scale", "number", "1", "factor on each value"}};

}  // namespace

extern const SourceDef source_digits;
const SourceDef source_digits{
    .type = "digits",
    .doc = "Digits drawn from random strokes, 1x28x28. Options: part, size, seed, endless (other digits every epoch), scale",
    .schema = {.options = kDigitsOptions},
    .open = open_digits_source,
    .two_parts = true};

}  // namespace perigee
