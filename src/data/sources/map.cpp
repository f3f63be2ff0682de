// {"type": "map", "source": {...}, "transforms": [{"type": "standardize"}, {"type": "flip", "field": "x"}, ...]}
#include <algorithm>
#include <cstring>
#include <utility>

#include "src/data/sound/rated.h"
#include "src/data/streams.h"
#include "src/data/transforms/carried.h"

namespace perigee {
namespace {

constexpr size_t kMaxFields = 64;

size_t map_padded_bytes(const Field& field) {
  return (static_cast<size_t>(field.shape.elements()) * dtype_bytes(field.dtype) + 63) / 64 * 64;
}

struct MapStep {
  std::shared_ptr<const Transform> transform;
  size_t field = 0;
  uint64_t stream = 0;
  int64_t lengths = -1;              // the field that says how many steps of it are there
  std::vector<size_t> carried = {};  // fields that lie on the picture that it moves
};

std::vector<size_t> fields_on(const std::vector<Field>& fields, const std::string& picture) {
  std::vector<size_t> found;
  for (size_t f = 0; f < fields.size(); ++f)
    if (fields[f].on_picture != OnPicture::none && fields[f].of == picture) found.push_back(f);
  return found;
}

class MapSource : public DataSource, public StreamedSource, public RatedSource {
 public:
  MapSource(SourcePtr inner, std::vector<MapStep> steps, double visible)
      : inner_(std::move(inner)), steps_(std::move(steps)), fields_(inner_->fields()), visible_(visible) {
    widest_.resize(fields_.size());
    last_.resize(fields_.size());
    const auto changes = [&](size_t field, Field output, const MapStep& step) {
      widest_[field] = std::max(widest_[field], map_padded_bytes(fields_[field]));
      fields_[field] = std::move(output);
      last_[field] = &step;
    };
    for (const MapStep& step : steps_) {
      const Field output = step.transform->output();
      for (const size_t f : step.carried) {
        Field carried = fields_[f];
        const int rank = output.shape.rank();
        if (carried.on_picture == OnPicture::mask) carried.shape = {output.shape[rank - 2], output.shape[rank - 1]};
        sizes_.push_back({fields_[step.field].shape, output.shape});
        changes(f, std::move(carried), step);
      }
      changes(step.field, output, step);
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
    const auto target = [&](const MapStep& step, size_t field) { return &step == last_[field] ? slots[field] : other[field]; };
    const Change* sizes = sizes_.data();
    for (const MapStep& step : steps_) {
      if (!step.carried.empty()) {
        Draw again(key, step.stream);
        const PlaneMap map = step.transform->placed(again);
        for (const size_t f : step.carried) {
          std::byte* to = target(step, f);
          carry(f, map, *sizes++, now[f], to);
          other[f] = std::exchange(now[f], to);
        }
      }
      std::byte* to = target(step, step.field);
      Draw draw(key, step.stream);
      int64_t steps = -1;
      if (step.lengths >= 0) std::memcpy(&steps, now[step.lengths], sizeof steps);
      step.transform->apply_steps(now[step.field], to, &steps, draw);
      if (step.lengths >= 0) std::memcpy(now[step.lengths], &steps, sizeof steps);
      other[step.field] = std::exchange(now[step.field], to);
    }
  }

  SourceTraits traits() const override {
    SourceTraits traits = inner_->traits();
    traits.fixed = traits.fixed && std::none_of(steps_.begin(), steps_.end(), [](const MapStep& step) { return step.transform->draws(); });
    traits.fitted = fitted_with(std::move(traits.fitted));
    traits.cheap = traits.touches = false;
    return traits;
  }

 private:
  // The shapes of a picture before and after a step.
  struct Change {
    Shape before, after;
  };

  void carry(size_t field, const PlaneMap& map, const Change& picture, const std::byte* from, std::byte* to) const {
    const int before = picture.before.rank(), after = picture.after.rank();
    const int64_t height = picture.after[after - 2], width = picture.after[after - 1];
    if (inner_->fields()[field].on_picture == OnPicture::boxes)
      carry_boxes(reinterpret_cast<const float*>(from), inner_->fields()[field].shape[0], map, height, width, visible_,
                  reinterpret_cast<float*>(to));
    else
      carry_mask(reinterpret_cast<const int64_t*>(from), picture.before[before - 2], picture.before[before - 1], map, height, width,
                 reinterpret_cast<int64_t*>(to));
  }

  Json fitted_with(Json inner) const {
    Json transforms = Json::array();
    bool any = false;
    for (const MapStep& step : steps_) {
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
  std::vector<MapStep> steps_;
  std::vector<Field> fields_;
  std::vector<size_t> widest_;        // bytes that one of a field's scratch buffers needs; 0: no step changes it
  std::vector<const MapStep*> last_;  // the step whose output is the field's
  size_t scratch_bytes_ = 0;
  std::vector<Change> sizes_;  // of the picture, for each field that each step carries along
  double visible_;
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

SourcePtr open_map_source(const Config& config, const std::string& folder) {
  const SourcePtr inner = open_source(config.object("source"), folder);
  if (inner->fields().size() > kMaxFields) config.fail("source", "has too many fields", std::to_string(inner->fields().size()));
  const Json* list = config.raw("transforms");
  if (list == nullptr || !list->is_array()) config.fail("transforms", "must be a list of transforms");
  const double visible = config.number("visible");
  const uint64_t depth = depth_below(config.json());
  std::vector<MapStep> steps;
  for (size_t i = 0; i < list->as_array().size(); ++i) {
    const Config described = config.element(list->as_array()[i], "transforms[" + std::to_string(i + 1) + "]");
    const TransformDef& def = find_transform(described);
    const Config each = described.with(def.schema);
    const MapSource before(inner, steps, visible);
    MapStep step;
    step.field = field_index(before, each.string("field", def.field), each.where());
    step.stream = depth << 32 | i;
    step.lengths = lengths_of(before.fields(), before.fields()[step.field].name);
    step.transform = def.open(each, before, step.field);
    if (step.transform->motion() != Motion::none) step.carried = fields_on(before.fields(), before.fields()[step.field].name);
    if (!step.carried.empty() && step.transform->motion() == Motion::untold)
      described.fail("type", "moves pictures, and what lies on them cannot follow", "'" + std::string(def.type) + "'",
                     "flip, crop, shift, rotate, affine, perspective, resize or resized_crop");
    steps.push_back(std::move(step));
  }
  return std::make_shared<MapSource>(inner, std::move(steps), visible);
}

constexpr Option kMapOptions[] = {{"source", "source", nullptr, "where the examples come from"},
                                  {"transforms", "list of transforms", nullptr, "in order"},
                                  {"visible", "number", "0.1", "share of a box that must stay in the picture, or the box goes", {0, 1}}};

}  // namespace

constexpr Option kTransformOptions[] = {{"field", "string", "x; of one_hot y, of box_grid boxes", "which field is changed"}};
const Schema common_transform_schema{.options = kTransformOptions};

extern const SourceDef source_map;
const SourceDef source_map{.type = "map",
                           .doc = "'source' with each example changed by 'transforms', in their order",
                           .schema = {.options = kMapOptions},
                           .open = open_map_source,
                           .wraps = true};

}  // namespace perigee
