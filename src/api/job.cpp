// perigee.h: jobs.
#include <filesystem>

#include "lua/script.h"
#include "src/api/handles.h"
#include "src/data/table/columnar/arrow/handed_source.h"
#include "src/io/yaml.h"

using namespace perigee;

namespace {

void give_job(const perigee_context& context, Job job, perigee_job** out) {
  auto handle = std::make_unique<perigee_job>();
  handle->context = context.state;
  handle->job.emplace(std::move(job));
  *out = handle.release();
}

// `evaluate` takes options and returns a script's job as JSON.
template <class Evaluate>
Job job_of_script(Evaluate evaluate, const std::string& where, const std::string& folder) {
  HeldArrays arrays;  // of the script, until the job holds them
  return Job(evaluate(LuaOptions{.folder = folder, .arrays = &arrays}), where, folder);
}

std::string extension_of(const std::string& path) { return std::filesystem::path(path).extension().string(); }

std::string folder_of(const std::string& path) {
  const auto folder = std::filesystem::path(path).parent_path();
  return folder.empty() ? "." : folder.string();
}

bool is_part(std::string_view name) { return name == "train" || name == "test" || name == "validation"; }

}  // namespace

extern "C" {

perigee_status perigee_job_parse(perigee_context* context, const char* text, size_t length, perigee_format format, const char* name,
                                 const char* folder, perigee_job** out) noexcept {
  if (out) *out = nullptr;
  if (!context) return PERIGEE_USAGE;
  return guard(*context->state, context->message, [&] {
    require(out && (text || length == 0), "perigee_job_parse", "text and out must not be null");
    const int number = number_of(format);
    const std::string where = name ? name : number == PERIGEE_LUA ? "script" : "job";
    const std::string from = folder ? folder : ".";
    const std::string_view document(text ? text : "", length);
    switch (number) {
      case PERIGEE_JSON: return give_job(*context, Job(Json::parse(document, where), where, from), out);
      case PERIGEE_YAML: return give_job(*context, Job(parse_yaml(document, where), where, from), out);
      case PERIGEE_LUA: {
        const auto evaluate = [&](const LuaOptions& options) { return evaluate_script_text(document, where, options); };
        return give_job(*context, job_of_script(evaluate, where, from), out);
      }
    }
    misuse("perigee_job_parse", "unknown format", std::to_string(number), "PERIGEE_JSON, PERIGEE_YAML or PERIGEE_LUA");
  });
}

perigee_status perigee_job_load(perigee_context* context, const char* path, perigee_job** out) noexcept {
  if (out) *out = nullptr;
  if (!context) return PERIGEE_USAGE;
  return guard(*context->state, context->message, [&] {
    require(path && out, "perigee_job_load", "path and out must not be null");
    const auto evaluate = [&](const LuaOptions& options) { return evaluate_script(path, options); };
    give_job(*context, extension_of(path) == ".lua" ? job_of_script(evaluate, path, folder_of(path)) : Job::load(path), out);
  });
}

void perigee_job_free(perigee_job* job) noexcept { const std::unique_ptr<perigee_job> owned(job); }

const char* perigee_job_message(const perigee_job* job) noexcept { return job ? job->message.get() : ""; }

perigee_status perigee_job_set(perigee_job* job, const char* path, const char* value) noexcept {
  if (!job) return PERIGEE_USAGE;
  return guard(*job->context, job->message, [&] {
    require(path && value, "perigee_job_set", "path and value must not be null");
    const std::lock_guard lock(job->mutex);
    Job changed = *job->job;
    changed.set(path, value);
    job->job = std::move(changed);
  });
}

perigee_status perigee_job_json(perigee_job* job, char** json) noexcept {
  if (!job) return PERIGEE_USAGE;
  return guard(*job->context, job->message, [&] {
    require(json, "perigee_job_json", "json must not be null");
    *json = nullptr;
    const std::lock_guard lock(job->mutex);
    *json = copy_text(job->job->canonical().dump());
  });
}

perigee_status perigee_job_bind(perigee_job* job, const char* name, perigee_source* source) noexcept {
  if (!job) return PERIGEE_USAGE;
  return guard(*job->context, job->message, [&] {
    require(name && source, "perigee_job_bind", "name and source must not be null");
    const std::lock_guard lock(job->mutex);
    Json description = job->job->json();
    Json* data = description.find("data");
    if (is_part(name) && (!data || data->is_null())) data = &description.set("data", Json::object());
    if (is_part(name) && data->is_object() && (!data->find(name) || data->find(name)->is_null())) {
      Json part = Json::object();
      const bool table = dynamic_cast<const HandedSource*>(source->source.get()) != nullptr;
      part.set("type", table ? "table" : "host");
      part.set(table ? "host" : "name", name);
      data->set(name, std::move(part));
      job->job = Job(std::move(description), job->job->where(), job->job->folder());
    }
    job->sources.insert_or_assign(name, source->source);
  });
}
}
