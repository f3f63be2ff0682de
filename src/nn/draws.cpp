#include "src/nn/draws.h"

#include <cmath>

#include "kernels/hash.h"

namespace perigee {
namespace {

// Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3" (SC 2011).
struct Block {
  uint32_t x[4];
};

Block philox(uint64_t key, uint64_t low, uint64_t high) {
  uint32_t c[4] = {static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32), static_cast<uint32_t>(high),
                   static_cast<uint32_t>(high >> 32)};
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c[0], p1 = uint64_t{0xCD9E8D57} * c[2];
    const uint32_t next[4] = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
                              static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
    for (int i = 0; i < 4; ++i) c[i] = next[i];
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return {{c[0], c[1], c[2], c[3]}};
}

template <size_t N>
double polynomial(const double (&coefficients)[N], double x) {
  double sum = coefficients[N - 1];
  for (size_t i = N - 1; i-- > 0;) sum = sum * x + coefficients[i];
  return sum;
}

}  // namespace

Draws::Draws(uint64_t seed, std::string_view name) : seed_(seed), name_(fnv1a(name)) {}

double Draws::uniform(uint64_t index, uint32_t lane) const {
  const Block block = philox(seed_, index, name_ + (uint64_t{lane} >> 1));
  const int at = lane & 1 ? 2 : 0;
  const uint64_t bits = (uint64_t{block.x[at]} << 32 | block.x[at + 1]) >> 11;
  return (static_cast<double>(bits) + 0.5) * 0x1p-53;
}

double Draws::normal(uint64_t index, uint32_t lane) const { return normal_quantile(uniform(index, lane)); }

double Draws::truncated_normal(uint64_t index) const {
  constexpr double kBelow = 0.022750131948179207;  // the normal distribution function at -2
  return normal_quantile(kBelow + uniform(index) * (1 - 2 * kBelow));
}

double exact_log(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);  // [0.5, 1)
  if (m < 0.70710678118654752) {
    m *= 2;
    --exponent;
  }
  const double t = (m - 1) / (m + 1), t2 = t * t;  // |t| < 0.172
  double sum = 0;
  for (int k = 23; k >= 1; k -= 2) sum = sum * t2 + 1.0 / k;
  return exponent * 0.69314718055994530942 + 2 * t * sum;
}

double exact_exp(double x) {
  if (x > 709) return INFINITY;
  if (x < -745) return 0;
  const double n = std::floor(x * 1.44269504088896340736 + 0.5);
  const double r = (x - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10;  // ln 2 in two parts
  double sum = 1;
  for (int k = 16; k >= 1; --k) sum = sum * r / k + 1;
  return std::ldexp(sum, static_cast<int>(n));
}

double normal_quantile(double p) {
  static constexpr double a[] = {3.3871328727963666080e0,  1.3314166789178437745e+2, 1.9715909503065514427e+3, 1.3731693765509461125e+4,
                                 4.5921953931549871457e+4, 6.7265770927008700853e+4, 3.3430575583588128105e+4, 2.5090809287301226727e+3};
  static constexpr double b[] = {1.0,
                                 4.2313330701600911252e+1,
                                 6.8718700749205790830e+2,
                                 5.3941960214247511077e+3,
                                 2.1213794301586595867e+4,
                                 3.9307895800092710610e+4,
                                 2.8729085735721942674e+4,
                                 5.2264952788528545610e+3};
  static constexpr double c[] = {1.42343711074968357734e0, 4.63033784615654529590e0,  5.76949722146069140550e0,  3.64784832476320460504e0,
                                 1.27045825245236838258e0, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4};
  static constexpr double d[] = {1.0,
                                 2.05319162663775882187e0,
                                 1.67638483018380384940e0,
                                 6.89767334985100004550e-1,
                                 1.48103976427480074590e-1,
                                 1.51986665636164571966e-2,
                                 5.47593808499534494600e-4,
                                 1.05075007164441684324e-9};
  static constexpr double e[] = {6.65790464350110377720e0,  5.46378491116411436990e0,  1.78482653991729133580e0,
                                 2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                 2.71155556874348757815e-5, 2.01033439929228813265e-7};
  static constexpr double f[] = {1.0,
                                 5.99832206555887937690e-1,
                                 1.36929880922735805310e-1,
                                 1.48753612908506148525e-2,
                                 7.86869131145613259100e-4,
                                 1.84631831751005468180e-5,
                                 1.42151175831644588870e-7,
                                 2.04426310338993978564e-15};
  const double q = p - 0.5;
  if (std::fabs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * polynomial(a, r) / polynomial(b, r);
  }
  const double tail = std::sqrt(-exact_log(q < 0 ? p : 1 - p));
  const double value =
      tail <= 5 ? polynomial(c, tail - 1.6) / polynomial(d, tail - 1.6) : polynomial(e, tail - 5) / polynomial(f, tail - 5);
  return q < 0 ? -value : value;
}

}  // namespace perigee
