#include "src/train/loss_scale.h"

namespace perigee {
namespace {

constexpr double kLeast = 0x1p-24, kMost = 0x1p24;

}  // namespace

std::optional<LossScale> read_loss_scale(const Job& job) {
  const Config config(job.json(), job.where());
  const Json* given = config.raw("loss_scale");
  if (given && given->is_null()) given = nullptr;
  if (job.half() != Dtype::f16) {
    if (given)
      config.fail("loss_scale", "is for precision = \"fp16\" alone", given->dump(), "", "other precisions have the range of float32");
    return std::nullopt;
  }
  LossScale scale;
  if (!given || *given == Json("dynamic")) return scale;
  if (!given->is_number()) config.fail("loss_scale", "is neither a number nor \"dynamic\"", given->dump(), "\"dynamic\", or 1024");
  scale.scale = static_cast<float>(config.number_in("loss_scale", kLeast, kMost, 1));
  scale.dynamic = 0;
  return scale;
}

float loss_seed(float scale, int64_t examples) { return scale / static_cast<float>(examples); }

Json loss_scale_json(const LossScale& scale) {
  return Json(
      Json::Object{{"scale", static_cast<double>(scale.scale)}, {"good", scale.good}, {"bad", scale.bad}, {"skipped", scale.skipped}});
}

void restore_loss_scale(const Config& from, LossScale* to) {
  const float scale = static_cast<float>(from.number_in("scale", 0x1p-126, 0x1p127, 1));
  if (to->dynamic) to->scale = scale;  // a static one is what the job says
  to->good = static_cast<int32_t>(from.integer_in("good", 0, LossScale::kGrowAfter - 1, 0));
  to->bad = static_cast<int32_t>(from.integer_in("bad", 0, LossScale::kMostBad - 1, 0));
  to->skipped = from.integer_in("skipped", 0, int64_t{1} << 53, 0);
}

}  // namespace perigee
