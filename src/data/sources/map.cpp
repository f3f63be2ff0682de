// {"type": "map", "source": {...}, "transforms": [{"type": "standardize"}, {"type": "flip", "field": "x"}, ...]}
#include <algorithm>
#include <cstring>

#include "src/data/sound/rated.h"
#include "src/data/streams.h"
#include "src/data/transform.h"

namespace perigee {
namespace {

constexpr size_t kMaxFields = 64;

size_t padded_bytes(const Field& field) { return (static_cast<size_t>(field.shape.elements()) * dtype_bytes(field.dtype) + 63) / 64 * 64; }

struct Step {
  std::shared_ptr<const Transform> transform;
  size_t field = 0;
  uint64_t stream = 0;
  int64_t lengths = -1;  // the field that says how many steps of it are there
};

class MapSource : public DataSource, public StreamedSource, public RatedSource {
 public:
  MapSource(SourcePtr inner, std::vector<Step> steps) : inner_(std::move(inner)), steps_(std::move(steps)), fields_(inner_->fields()) {
    widest_.resize(fields_.size());
    last_.resize(fields_.size());
    for (const Step& step : steps_) {
      widest_[step.field] = std::max(widest_[step.field], padded_bytes(fields_[step.field]));
      fields_[step.field] = step.transform->output();
      last_[step.field] = &step;
    }
    for (const size_t bytes : widest_) scratch_bytes_ += 2 * bytes;
  }

  int64_t size() const override { return inner_->size(); }
  int64_t streams() const override { return streams_of(*inner_); }
  double rate() const override { return rate_of(*inner_); }
  const std::vector<Field>& fields() const override { return fields_; }
  void expect(std::span<const ReadKey> keys) const override { inner_->expect(keys); }

  // A field that is changed is read into the first of its two scratch buffers, goes to and fro between them, and the last step
  // writes where the caller wants it.
  void read(const ReadKey& key, std::span<std::byte* const> slots) const override {
    const Scratch scratch(scratch_bytes_);
    std::byte *now[kMaxFields], *other[kMaxFields];
    std::byte* free = scratch.data();
    for (size_t f = 0; f < fields_.size(); ++f) {
      now[f] = last_[f] == nullptr ? slots[f] : free;
      other[f] = free + widest_[f];
      free += 2 * widest_[f];
    }
    inner_->read(key, {now, fields_.size()});
    for (const Step& step : steps_) {
      std::byte* to = &step == last_[step.field] ? slots[step.field] : other[step.field];
      Draw draw(key, step.stream);
      int64_t steps = -1;
      if (step.lengths >= 0) std::memcpy(&steps, now[step.lengths], sizeof steps);
      step.transform->apply_steps(now[step.field], to, &steps, draw);
      if (step.lengths >= 0) std::memcpy(now[step.lengths], &steps, sizeof steps);
      other[step.field] = now[step.field];
      now[step.field] = to;
    }
  }

  SourceTraits traits() const override {
    SourceTraits traits = inner_->traits();
    traits.fixed = traits.fixed && std::none_of(steps_.begin(), steps_.end(), [](const Step& step) { return step.transform->draws(); });
    traits.fitted = fitted_with(std::move(traits.fitted));
    traits.cheap = traits.touches = false;
    return traits;
  }

 private:
  Json fitted_with(Json inner) const {
    Json transforms = Json::array();
    bool any = false;
    for (const Step& step : steps_) {
      transforms.push(step.transform->fitted());
      any |= !transforms.as_array().back().is_null();
    }
    if (!any && inner.is_null()) return {};
    Json fitted = Json::object();
    fitted.set("type", "map");
    fitted.set("source", std::move(inner));
    fitted.set("transforms", std::move(transforms));
    return fitted;
  }

  SourcePtr inner_;
  std::vector<Step> steps_;
  std::vector<Field> fields_;
  std::vector<size_t> widest_;     // bytes that one of a field's scratch buffers needs; 0: no step changes it
  std::vector<const Step*> last_;  // the step whose output is the field's
  size_t scratch_bytes_ = 0;
};

// Nested maps must not draw the same numbers: how many lie below this one.
uint64_t depth_below(const Json& description) {
  uint64_t depth = 0;
  for (const Json* at = description.find("source"); at != nullptr; at = at->find("source"))
    if (const Json* type = at->find("type"); type != nullptr && *type == Json("map")) ++depth;
  return depth;
}

const TransformDef& find_transform(const Config& config) {
  const std::string type = config.string("type");
  std::vector<std::string> names;
  std::string listed;
  for (const TransformDef* def : transform_defs()) {
    if (type == def->type) return *def;
    names.push_back(def->type);
    listed += (listed.empty() ? "" : ", ") + names.back();
  }
  config.fail("type", "names an unknown transform", "'" + type + "'", "one of " + listed, nearest_hint(type, names));
}

SourcePtr open(const Config& config, const std::string& folder) {
  const SourcePtr inner = open_source(config.object("source"), folder);
  if (inner->fields().size() > kMaxFields) config.fail("source", "has too many fields", std::to_string(inner->fields().size()));
  const Json* list = config.raw("transforms");
  if (list == nullptr || !list->is_array()) config.fail("transforms", "must be a list of transforms");
  const uint64_t depth = depth_below(config.json());
  std::vector<Step> steps;
  for (size_t i = 0; i < list->as_array().size(); ++i) {
    const Config described = config.element(list->as_array()[i], "transforms[" + std::to_string(i) + "]");
    const TransformDef& def = find_transform(described);
    const Config each = described.with(def.schema);
    const MapSource before(inner, steps);
    Step step;
    step.field = field_index(before, each.string("field", def.field), each.where());
    step.stream = depth << 32 | i;
    step.lengths = lengths_of(before.fields(), before.fields()[step.field].name);
    step.transform = def.open(each, before, step.field);
    steps.push_back(std::move(step));
  }
  return std::make_shared<MapSource>(inner, std::move(steps));
}

constexpr Option kOptions[] = {{"source", "source", nullptr, "where the examples come from"},
                               {"transforms", "list of transforms", nullptr, "in order"}};

}  // namespace

constexpr Option kTransformOptions[] = {{"field", "string", "x, of one_hot y", "which field is changed"}};
const Schema common_transform_schema{.options = kTransformOptions};

extern const SourceDef source_map;
const SourceDef source_map{.type = "map",
                           .doc = "'source' with each example changed by 'transforms', in their order",
                           .schema = {.options = kOptions},
                           .open = open,
                           .wraps = true};

}  // namespace perigee
