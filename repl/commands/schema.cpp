// `perigee schema`: what a job may say, for editors that check job.json and job.yaml, and as tables to read.
#include <CLI/App.hpp>
#include <cstdio>

#include "cluster/policy/families.h"
#include "repl/commands/command.h"
#include "src/job/job_schema.h"
#include "src/schema/json_schema.h"

namespace perigee {
namespace {

bool markdown = false;

void declare(CLI::App& app) { app.add_flag("--markdown", markdown, "print tables of all options instead"); }

// A cell of a table: one line, its bars escaped.
std::string cell(const std::string& text) {
  std::string line;
  for (const char c : text) line += c == '|' ? "\\|" : c == '\n' ? " " : std::string(1, c);
  return line;
}

std::string range_of(const Option& option) {
  const bool none = option.range.low == OptionRange{}.low && option.range.high == OptionRange{}.high;
  return none || *option.choices != nullptr
             ? ""
             : expected_text(option).substr(expected_text(option).rfind(option.type->text) + std::string(option.type->text).size());
}

std::string table_of(const std::vector<const Option*>& options) {
  std::string text = "| option | type | default | |\n|---|---|---|---|\n";
  for (const Option* option : options) {
    const std::string fallback = option->required() ? "required" : option->fallback;
    text += "| `" + std::string(option->name) + "` | " + cell(type_text(*option) + range_of(*option)) + " | " + cell(fallback) + " | " +
            cell(option->doc) + (option->units ? std::string(", in ") + option->units : "") + " |\n";
  }
  return text + "\n";
}

std::string own_table(const Schema& schema) { return table_of(Schema{.options = schema.options}.all()); }

std::string options_text(const std::vector<Family>& families) {
  std::string text = "# Options\n\nWritten by `perigee schema --markdown` from the definitions.\n\n## Job\n\n" + own_table(job_schema);
  for (const Option& option : job_schema.options)
    if (option.inside != nullptr) text += "### " + std::string(option.name) + "\n\n" + own_table(*option.inside);
  for (const Family& family : families) {
    text += "## " + std::string(family.name) + "\n\n";
    if (family.plain != nullptr) text += own_table(*family.plain);
    if (!family.members.empty() && family.members[0].schema.common != nullptr)
      text += "Common options:\n\n" + own_table(*family.members[0].schema.common);
    for (const FamilyMember& member : family.members) {
      text += "### " + member.name + "\n\n" + member.doc + "\n\n";
      if (!member.schema.options.empty()) text += own_table(member.schema);
    }
  }
  text.pop_back();
  return text;
}

int run() {
  const std::vector<Family> families = all_families();
  const std::string text = markdown ? options_text(families) : job_json_schema(families).dump(2) + "\n";
  return std::fputs(text.c_str(), stdout) < 0;
}

}  // namespace

extern const Command command_schema;
const Command command_schema{
    .name = "schema", .doc = "print a JSON Schema of jobs, or tables of all options", .declare = declare, .run = run};

}  // namespace perigee
