// `perigee generate`: a trained model of text goes on with a prompt, or writes what becomes of an input.
#include <CLI/App.hpp>
#include <algorithm>
#include <cstdio>

#include "repl/commands/command.h"
#include "repl/commands/load.h"
#include "repl/signals.h"
#include "src/generate/generation.h"
#include "src/model/model_file.h"

namespace perigee {
namespace {

struct GenerateCommandOptions {
  std::string model;
  bool json = false;
  Json given = Json::object();  // by the names of generate_schema
} generate_command_options;

std::string flag_of(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return "--" + name;
}

void declare_generate(CLI::App& app) {
  app.add_option("model", generate_command_options.model, "a model file, or the folder of a finished run")->required();
  for (const Option& option : generate_schema.options) {
    const std::string flag = flag_of(option.name), name = option.name;
    std::string doc = option.doc;
    if (!option.required()) doc += "; the default is " + std::string(option.fallback);
    if (option.type == TypeName("integer")) {
      app.add_option_function<int64_t>(
          flag, [name](const int64_t& value) { generate_command_options.given.set(name, value); }, doc);
    } else if (option.type == TypeName("number")) {
      app.add_option_function<double>(
          flag, [name](const double& value) { generate_command_options.given.set(name, value); }, doc);
    } else if (option.type == TypeName("list of names")) {
      const auto set = [name](const std::vector<std::string>& values) {
        Json list = Json::array();
        for (const std::string& value : values) list.push(value);
        generate_command_options.given.set(name, std::move(list));
      };
      app.add_option_function<std::vector<std::string>>(flag, set, doc + "; may be given several times")->allow_extra_args(false);
    } else {
      CLI::Option* const added = app.add_option_function<std::string>(
          flag, [name](const std::string& value) { generate_command_options.given.set(name, value); }, doc);
      if (option.required()) added->required();
    }
  }
  app.add_flag("--json", generate_command_options.json,
               "one JSON object: prompt and input where they are given, text, tokens, and whether a stop text ended it; without, the text "
               "as it comes");
}

int run_generate() {
  watch_signals("\nstopping; once more to quit at once\n");
  const GenerateOptions wanted = generate_options(generate_command_options.given, "generate");
  LoadedModel loaded = load_model(model_path(generate_command_options.model));
  Generation generation(*loaded.model, loaded.job, loaded.fitted, wanted, "--");
  std::string text;
  while (const std::optional<std::string> piece = generation.next(&stop_requested())) {
    if (generate_command_options.json) {
      text += *piece;
    } else {
      std::fwrite(piece->data(), 1, piece->size(), stdout);
      std::fflush(stdout);
    }
  }
  if (generate_command_options.json) {
    Json result = Json::object();
    if (wanted.input) result.set("input", *wanted.input);
    if (wanted.prompt) result.set("prompt", *wanted.prompt);
    result.set("text", text);
    result.set("tokens", generation.units());
    result.set("stopped", generation.stopped());
    std::printf("%s\n", result.dump().c_str());
  } else {
    std::printf("\n");
  }
  return stop_requested() ? stop_exit_code() : 0;
}

}  // namespace

extern const Command command_generate;
const Command command_generate{.name = "generate",
                               .doc = "go on with a text, or translate one, as a trained model of text does",
                               .declare = declare_generate,
                               .run = run_generate};

}  // namespace perigee
