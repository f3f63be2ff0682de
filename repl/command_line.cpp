#include <sys/resource.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <utility>

#include "repl/commands/command.h"
#include "repl/console/console.h"
#include "src/api/program.h"
#include "src/core/elsewhere.h"
#include "src/core/error.h"
#include "src/device/gpu.h"
#include "src/io/file.h"
#include "src/job/job_schema.h"

namespace perigee {

extern const Command command_version;

namespace {

// Set by the program's own options.
ConsoleOptions console;
bool version = false;

std::vector<std::string> long_options(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

void say(const std::string& text) { std::fprintf(stderr, "perigee: %s\n", text.c_str()); }

// Names that others have for our commands; files that are run by being named elsewhere.
std::string other_command(const std::string& word) {
  constexpr std::pair<std::string_view, std::string_view> kOthers[] = {
      {"fit", "train"},        {"run", "train"},     {"start", "train"},       {"test", "eval"},     {"evaluate", "eval"},
      {"score", "eval"},       {"infer", "predict"}, {"inference", "predict"}, {"info", "describe"}, {"summary", "describe"},
      {"inspect", "describe"}, {"console", "repl"},  {"shell", "repl"}};
  for (const auto& [other, ours] : kOthers)
    if (word == other) return "did you mean '" + std::string(ours) + "'?";
  constexpr std::string_view kModel =
      "a trained model is RUN/model.safetensors; programs in C and C++ use it by libperigee (src/api/README.md)";
  constexpr std::pair<std::string_view, std::string_view> kElsewhere[] = {
      {"export", kModel},
      {"convert", kModel},
      {"import", "a script says what is trained; models/coming_from/ shows how a network of Keras or PyTorch is written"},
      {"serve", kModel},
      {"plot", "`perigee report RUN` draws its curves on a page, run:plot \"loss\" at the prompt"},
      {"ls", "runs are folders in runs/; `perigee report RUN RUN` compares them"},
      {"list", "runs are folders in runs/; `perigee report RUN RUN` compares them"},
      {"resume", "`perigee train --resume RUN` goes on with a run"},
      {"new", "a script says what is trained; `perigee help train` and models/README.md show one"},
      {"init", "a script says what is trained; `perigee help train` and models/README.md show one"}};
  for (const auto& [other, said] : kElsewhere)
    if (word == other) return std::string(said);
  if (file_exists(word + "/model.safetensors"))
    return "a run is looked at by `perigee report " + word + "` and `perigee eval " + word + "`";
  for (const char* end : {".lua", ".json", ".yaml", ".yml"})
    if (word.ends_with(end)) return "did you mean `perigee train " + word + "`?";
  if (word.ends_with(".csv"))
    return "`perigee data analyse " + word + "` says what the table has; a script names it: pg.data.csv { \"" + word + "\" }";
  return "";
}

// "--batch" for "--batch-size" and the like, or how the thing is said here.
std::string option_elsewhere(const std::string& word, const std::vector<std::string>& known) {
  std::vector<std::string> bare;
  for (const std::string& each : known) bare.push_back(each.starts_with("--") ? each.substr(2) : each);
  std::string name = word.substr(2), hint;
  std::replace(name.begin(), name.end(), '-', '_');
  hint = meant_elsewhere(name, bare);
  if (const size_t quote = hint.find('\''); quote != hint.npos) return hint.insert(quote + 1, "--");
  return advice_elsewhere(name, {});
}

// The name here of an option that other programs call `word`, as a hint; empty: nothing is known.
std::string other_name(const std::string& word, const std::vector<std::string>& known) {
  const auto has = [&](const std::string& name) { return std::find(known.begin(), known.end(), name) != known.end(); };
  for (const std::string& twin : {word + "s", word.substr(0, word.size() - (word.ends_with('s') ? 1 : 0))})
    if (word.starts_with("--") && has(twin)) return "did you mean '" + twin + "'?";
  const std::string setting = word.starts_with("--") && has("--set") ? setting_meant_by(word.substr(2)) : "";
  if (!setting.empty()) return "did you mean '--set " + setting + "='?";
  if ((word.starts_with("--output") || word == "-o") && has("--out")) return "did you mean '--out'?";
  if ((word == "--csv" || word == "--jsonl" || word == "--npy") && has("--out"))
    return "--out results." + word.substr(2) + " writes such a file";
  return word.starts_with("--") ? option_elsewhere(word, known) : "";
}

// Reports arguments that CLI11 did not expect, with the nearest known ones.
void explain_extras(const CLI::App& app, const std::vector<std::string>& extras) {
  const auto chosen = app.get_subcommands();
  std::vector<std::string> known;
  if (chosen.empty()) {
    for (const Command* command : commands()) known.emplace_back(command->name);
    for (const std::string& name : long_options(app)) known.push_back(name);
  } else {
    known = long_options(*chosen[0]);
  }
  const std::string word = extras.empty() ? "" : extras[0].substr(0, extras[0].find('='));
  std::string other = other_name(word, known);
  if (other.empty() && chosen.empty()) other = other_command(word);
  if (other.empty() && !chosen.empty() && chosen[0]->get_name() == "eval" && !word.starts_with("-")) other = "other data: --data " + word;
  if (const CLI::Option* set = chosen.empty() || word.starts_with("-") ? nullptr : chosen[0]->get_option_no_throw("--set"))
    for (const std::string& path : set->results())
      if (path.find('=') == path.npos) other = "a setting is one word: --set " + path + "=" + word;
  const std::string hint = other.empty() ? nearest_hint(word, known) : other;
  const std::string command = chosen.empty() ? "perigee" : "perigee " + chosen[0]->get_name();
  say("'" + word + "' is no " +
      (word.starts_with("-") ? "option"
       : chosen.empty()      ? "command"
                             : "argument") +
      " of `" + command + "`; " + (hint.empty() ? "see `" + command + " --help`" : hint));
}

// CLI11 tells the range of a positive number with all 309 digits of its end.
std::string in_our_words(const std::string& text) {
  const size_t value = text.find("Value "), range = text.find(" not in range 0.000000 to 1797");
  if (value == text.npos || range == text.npos || range < value + 6) return text;
  return text.substr(0, value) + "must be greater than 0; got " + text.substr(value + 6, range - value - 6);
}

// "files is required" of CLI11, with what files are.
std::string what_is_missing(const CLI::App& command, const std::string& text) {
  const size_t end = text.find(" is required");
  if (end == text.npos) return text;
  for (const CLI::Option* option : command.get_options())
    if (option->get_name(true) == text.substr(0, end) || option->get_name() == text.substr(0, end))
      return (option->get_name() == "files" && input_is_given()
                  ? "what is piped in is read where the file is called -: perigee " + command.get_name() + " MODEL -; "
                  : std::string()) +
             "`perigee " + command.get_name() + "` needs " + (option->get_positional() ? "an argument more: " : "an option: ") +
             text.substr(0, end) + ", " + option->get_description();
  return text;
}

int parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return -1;
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
  } catch (const CLI::CallForAllHelp&) {
    std::fputs(app.help("", CLI::AppFormatMode::All).c_str(), stdout);
  } catch (const CLI::ExtrasError&) {
    explain_extras(app, app.remaining(true));
    return static_cast<int>(ErrorKind::usage);
  } catch (const CLI::ParseError& error) {
    const auto chosen = app.get_subcommands();
    const std::string text = in_our_words(error.what());
    say((chosen.empty() ? text : what_is_missing(*chosen[0], text)) + "; see `perigee " +
        (chosen.empty() ? "" : chosen[0]->get_name() + " ") + "--help`");
    return static_cast<int>(ErrorKind::usage);
  }
  return 0;
}

// Lua bounds how deep its functions call each other, but not how much of this stack string.gsub and its like take for each such call.
void allow_deep_calls() {
  constexpr rlim_t kStack = rlim_t{96} << 20;  // the kernel leaves room for 128 MiB, whatever the limit was at the start
  rlimit limit = {};
  if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kStack) return;  // RLIM_INFINITY is the greatest
  limit.rlim_cur = std::min(limit.rlim_max, kStack);
  setrlimit(RLIMIT_STACK, &limit);
}

}  // namespace

std::vector<std::string> option_names(const Command& command) {
  CLI::App app;
  command.declare(app);
  return long_options(app);
}

void declare_command_line(CLI::App& app, const std::vector<std::string_view>* words) {
  app.require_subcommand(0, 1);
  app.allow_extras();  // explained by ourselves
  app.footer(kExitCodes);
  app.add_flag("--version", version, "print the version");
  app.add_option("-e", console.expressions, "run Lua, print its value, and leave: perigee -e 'pg.version'")->allow_extra_args(false);
  for (const Command* command : commands()) {
    CLI::App* sub = app.add_subcommand(command->name, command->doc);
    if (words && std::find(words->begin(), words->end(), command->name) == words->end()) continue;
    sub->footer(kExitCodes);
    command->declare(*sub);
  }
}

int run_command_line(int argc, char** argv) {
  allow_deep_calls();
  CLI::App app("Perigee trains neural networks on one machine or on many.", "perigee");
  const std::vector<std::string_view> words(argv, argv + argc);
  declare_command_line(app, &words);
  if (const int code = parse(app, argc, argv); code >= 0) return code;
  try {
    auto extras = app.remaining(true);
    std::erase(extras, "--");  // what is behind it is no option
    if (!extras.empty()) {
      explain_extras(app, extras);
      return static_cast<int>(ErrorKind::usage);
    }
    for (const Command* command : commands())
      if (app.get_subcommand(command->name)->parsed()) return command->run();
    if (version) return command_version.run();
    if (!console.expressions.empty() || (argc == 1 && (at_terminal() || input_is_given()))) return run_console(console);
    std::fputs(app.help().c_str(), stdout);
    return argc > 1 ? static_cast<int>(ErrorKind::usage) : 0;
  } catch (const Error& error) {
    say(error.what());
    return static_cast<int>(error.kind());
  } catch (const std::bad_alloc&) {
    say("there is not enough memory; a smaller batch, fewer threads or a part of the data needs less");
    return static_cast<int>(ErrorKind::resources);
  }
}

}  // namespace perigee

int perigee_main(int argc, char** argv) {
  const int code = perigee::run_command_line(argc, argv);
  if (perigee::Gpu::hangs()) {
    std::fflush(nullptr);
    std::_Exit(code);
  }
  return code;
}
