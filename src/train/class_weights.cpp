#include "src/train/class_weights.h"

#include <algorithm>
#include <vector>

#include "src/data/labels.h"
#include "src/data/transform.h"

namespace perigee {
namespace {

Json balanced_weights(const DataSource& train, const Config& loss, const std::string& target) {
  const size_t field = field_index(train, target, loss.where() + ": class_weight");
  const int64_t classes = train.fields()[field].classes;
  if (classes == 0 || train.traits().live)
    loss.fail(
        "class_weight", "needs a label of each example before training begins",
        "'" + target + "', " + Type{train.fields()[field].dtype, train.fields()[field].shape}.text() + " of " + train.traits().description,
        "a field with the number of a class", "give the weights as numbers: weights = { 1, 2 }");
  std::vector<int64_t> counts(static_cast<size_t>(classes));
  for (const int64_t label : labels_of(train, field))
    if (label >= 0 && label < classes) ++counts[static_cast<size_t>(label)];
  const auto come = static_cast<double>(classes - std::ranges::count(counts, 0));
  Json weights = Json::array();
  double examples = 0;
  for (const int64_t count : counts) examples += static_cast<double>(count);
  for (const int64_t count : counts) weights.push(count == 0 ? 1.0 : examples / (come * static_cast<double>(count)));
  return weights;
}

// Whether the loss has changed.
bool balance(Json& loss, const DataSource& train, const std::string& where, const std::string& target) {
  const Json* wanted = loss.is_object() ? loss.find("class_weight") : nullptr;
  if (!wanted || wanted->is_null()) return false;
  const Config config(loss, where);
  if (!wanted->is_string())
    config.fail("class_weight", "is no list of weights", shown(*wanted), "\"balanced\"",
                "weights = { 1, 2, 3 } gives a number for each class");
  config.choice("class_weight", "balanced", {"balanced"});
  if (const Json* given = loss.find("weights"); given && !given->is_null())
    config.fail("class_weight", "and 'weights' both say how much a class counts", "both", "one of them");
  Json weights = balanced_weights(train, config, target);
  loss.erase("class_weight");
  loss.set("weights", std::move(weights));
  return true;
}

}  // namespace

void balance_classes(Job& job, const DataSource& train) {
  const Json* given = job.json().find("loss");
  if (!given || !given->is_object()) return;
  const Config config(job.json(), job.where());
  const std::string target = config.string("target", "y");
  Json loss = *given;
  bool changed = false;
  if (loss.find("type")) {
    changed = balance(loss, train, job.where() + ": loss", target);
  } else {
    for (auto& [name, head] : loss.as_object()) {
      const Json* own = head.is_object() ? head.find("target") : nullptr;
      changed |= balance(head, train, job.where() + ": loss." + name, own && own->is_string() ? own->as_string() : target);
    }
  }
  if (changed) job.set("loss", loss.dump());
}

}  // namespace perigee
