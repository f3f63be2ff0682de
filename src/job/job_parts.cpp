#include "src/job/job_parts.h"

#include <algorithm>
#include <utility>

namespace perigee {
namespace {

// Empty where the job has none.
const Json::Array& parts_of(const Json& job, const char* key) {
  static const Json::Array kNone;
  const Json* parts = job.find(key);
  return parts && parts->is_array() ? parts->as_array() : kNone;
}

bool is_given(const Json* value) { return value && !value->is_null(); }

std::string place_of(const std::string& where, const char* key, size_t i) { return where + ": " + key + "[" + std::to_string(i + 1) + "]"; }

std::string name_of(const Json& part, const char* kind, size_t i) {
  const Json* name = part.find("name");
  return name && name->is_string() ? name->as_string() : kind + std::string(" ") + std::to_string(i + 1);
}

// Keys of `part` take the place of the job's; those of "data" one by one.
void put_over(Json* job, const Json& part) {
  for (const auto& [key, value] : part.as_object()) {
    if (key == "name" || key.starts_with('@') || value.is_null()) continue;
    const Json* before = job->find(key);
    if (key != "data" || !is_given(before) || !value.is_object()) {
      job->set(key, value);
      continue;
    }
    Json data = *before;
    for (const auto& [name, each] : value.as_object())
      if (!name.starts_with('@')) data.set(name, each);
    job->set("data", std::move(data));
  }
}

// Parameters that the job's pretrained model leaves as they are stay so in the later phases, which have no pretrained model.
void keep_frozen(Json* job) {
  const Json* pretrained = job->find("pretrained");
  const Json* frozen = pretrained && pretrained->is_object() ? pretrained->find("freeze") : nullptr;
  if (!frozen || is_given(job->find("freeze"))) return;
  job->set("freeze", *frozen);
}

void refuse(const std::string& where, std::string what, std::string hint) {
  throw Error(ErrorKind::model, {.where = where, .what = std::move(what), .hint = std::move(hint)});
}

void check_objectives(const Json& job, const std::string& where) {
  const Json::Array& objectives = parts_of(job, "objectives");
  for (size_t i = 0; i < objectives.size(); ++i)
    for (const char* key : {"loss", "updates"})
      if (!is_given(objectives[i].find(key)))
        refuse(place_of(where, "objectives", i), std::string("an objective needs '") + key + "'",
               "for example { loss = \"l2\", updates = \"maker.*\" }");
  const Json* loss = job.find("loss");
  if (!objectives.empty() && is_given(loss) && *loss != *objectives[0].find("loss"))
    refuse(where + ": loss", "and 'objectives' both say what is trained for",
           "leave out the loss: evaluations tell that of the first objective");
}

}  // namespace

size_t phase_count(const Job& job) { return parts_of(job.json(), "phases").size(); }

std::string phase_name(const Job& job, size_t i) { return name_of(parts_of(job.json(), "phases").at(i), "phase", i); }

Job phase_job(const Job& job, size_t i) {
  const Json phase = parts_of(job.json(), "phases").at(i);
  Json own = job.json();
  for (const char* key : {"phases", "@places"}) own.erase(key);
  if (is_given(phase.find("loss"))) own.erase("objectives");
  if (is_given(phase.find("objectives"))) own.erase("loss");
  if (i > 0) keep_frozen(&own), own.erase("pretrained");
  own.set("name", job.name());
  put_over(&own, phase);
  return Job(std::move(own), place_of(job.where(), "phases", i), job.folder());
}

int64_t examples_planned(const Job& job, int64_t examples_of_epoch) {
  const Config config(job.json(), job.where());
  const int64_t epochs = config.integer_in("epochs", 0, int64_t{1} << 32, 1), steps = config.integer_in("steps", 0, int64_t{1} << 52, 0);
  const Config data = config.object("data");
  const int64_t by_steps = steps * data.integer_in("batch", 1, int64_t{1} << 24, 32) * accumulate_of(job);
  if (steps == 0) return epochs * examples_of_epoch;
  return epochs > 0 && config.has("epochs") ? std::min(epochs * examples_of_epoch, by_steps) : by_steps;
}

size_t objective_count(const Job& job) { return parts_of(job.json(), "objectives").size(); }

Objective objective_of(const Job& job, size_t i) {
  const Json& part = parts_of(job.json(), "objectives").at(i);
  const Config config(part, place_of(job.where(), "objectives", i));
  return {.name = name_of(part, "objective", i),
          .updates = config.string_list("updates"),
          .every = config.integer_in("every", 1, 1000000000, 1)};
}

Job objective_job(const Job& job, size_t i) {
  const Json part = parts_of(job.json(), "objectives").at(i);
  Json own = job.json(), keys = part;
  own.erase("loss");
  for (const char* key : {"updates", "every"}) keys.erase(key);
  put_over(&own, keys);
  if (i > 0) own.erase("objectives");
  return Job(std::move(own), i == 0 ? job.where() : place_of(job.where(), "objectives", i), job.folder());
}

void complete_job(Json* job) {
  const Json::Array& phases = parts_of(*job, "phases");
  const Json* network = phases.empty() ? nullptr : phases.back().find("network");
  if (is_given(network) && !is_given(job->find("network"))) job->set("network", Json(*network));
}

void check_parts(const Json& job, const std::string& where) {
  for (const char* key : {"phases", "objectives"}) {
    const Json::Array& parts = parts_of(job, key);
    if (is_given(job.find(key)) && parts.empty()) refuse(where + ": " + key, "is an empty list", "leave it out");
    for (size_t i = 0; i < parts.size(); ++i)
      if (!parts[i].is_object())
        throw Error(
            ErrorKind::model,
            {.where = place_of(where, key, i), .what = "is no table", .got = parts[i].type_name(), .expected = "a table of options"});
  }
  check_objectives(job, where);
  for (size_t i = 0; i < parts_of(job, "phases").size(); ++i) check_objectives(parts_of(job, "phases")[i], place_of(where, "phases", i));
}

}  // namespace perigee
