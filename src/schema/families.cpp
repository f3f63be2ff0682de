#include "src/schema/families.h"

#include "src/data/transform.h"
#include "src/model/evaluation.h"
#include "src/nn/activations.h"
#include "src/nn/initializer.h"
#include "src/nn/layer.h"
#include "src/nn/loss.h"
#include "src/nn/noise.h"
#include "src/optim/clip.h"
#include "src/optim/constraint.h"
#include "src/optim/optimizer_def.h"
#include "src/optim/regularizer.h"
#include "src/optim/schedule.h"
#include "src/vectors/rows/neighbour_index.h"
#include "src/vectors/vector_options.h"

namespace perigee {
namespace {

const char* or_empty(const char* text) { return text ? text : ""; }

template <class Def>
FamilyMember member_of(const Def& def) {
  FamilyMember member{.name = "", .doc = or_empty(def.doc), .example = "", .schema = def.schema};
  if constexpr (requires { def.type; }) member.name = def.type;
  else member.name = def.name;
  if constexpr (requires { def.example; }) member.example = or_empty(def.example);
  return member;
}

template <class Registry>
Family family_of(const char* name, const Registry& registry) {
  Family family{.name = name, .members = {}};
  for (const auto& def : registry) {
    if constexpr (std::is_pointer_v<std::decay_t<decltype(def)>>) family.members.push_back(member_of(*def));
    else family.members.push_back(member_of(def));
  }
  return family;
}

}  // namespace

std::vector<Family> families() {
  Family losses = family_of("loss", all_losses());
  for (FamilyMember& member : losses.members) member.schema.common = &output_loss_schema;
  return {family_of("layer", all_layers()),
          family_of("activation", all_activations()),
          family_of("optimizer", all_optimizers()),
          family_of("schedule", all_schedules()),
          std::move(losses),
          family_of("initializer", all_initializers()),
          family_of("metric", all_evaluations()),
          family_of("source", source_defs()),
          family_of("transform", transform_defs()),
          family_of("constraint", constraint_kinds()),
          family_of("clip", clip_kinds()),
          family_of("weight_noise", weight_noise_kinds()),
          {.name = "regularization", .members = {}, .plain = &regularization_schema},
          {.name = "word_vectors", .members = {}, .plain = &word_vectors_schema},
          {.name = "neighbours", .members = {}, .plain = &neighbours_schema}};
}

}  // namespace perigee
