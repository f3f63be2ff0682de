#include "repl/commands/describe/averaging.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "repl/commands/describe/table.h"
#include "repl/commands/quantity.h"
#include "repl/display/display.h"

namespace perigee {
namespace {

const char* averaging_text(const Json& json, const char* name) { return json.find(name)->as_string().c_str(); }
double averaging_number(const Json& json, const char* name) { return json.find(name)->as_number(); }
long long averaging_integer(const Json& json, const char* name) { return json.find(name)->as_int(); }

std::string when_of(const Json& averaging) {
  const Json* before = averaging.find("before");
  return (before ? before->as_string() + ", then " : "") + averaging_text(averaging, "when");
}

std::string what_of(const Json& averaging) {
  std::string what = averaging_text(averaging, "what");
  if (const Json* codec = averaging.find("codec")) {
    char line[64];
    std::snprintf(line, sizeof line, " as %s (%.3g bits each)", averaging_text(*codec, "type"), averaging_number(*codec, "bits"));
    what += line;
  }
  if (averaging.find("optimizer_state")->as_bool()) what += " and optimiser state";
  return what;
}

std::string outer_of(const Json& averaging) {
  const Json* outer = averaging.find("outer");
  if (!outer) return "";
  std::string line = ", outer step";
  const auto& states = outer->find("states")->as_array();
  for (size_t i = 0; i < states.size(); ++i) line += (i == 0 ? " with state " : ", ") + states[i].as_string();
  return line;
}

// Each worker with the server by itself: what one exchange sends, each way.
void print_served(const Json& averaging, const Json& server) {
  const long long contributions = averaging_integer(server, "contributions");
  const std::string merged = contributions > 1 ? "of " + std::to_string(contributions) + " contributions" : "of one contribution";
  std::printf("averaging on several workers: %s: %s, %s, rounds %s%s, merge %s, with a server, staleness at most %lld; gain %.3g\n",
              averaging_text(averaging, "type"), when_of(averaging).c_str(), what_of(averaging).c_str(), merged.c_str(),
              outer_of(averaging).c_str(), averaging_text(server, "merge"), averaging_integer(averaging, "max_staleness"),
              averaging_number(averaging, "gain"));
  const Json& bytes = *averaging.find("exchange_bytes");
  std::printf("bytes between a worker and the server in one exchange: up %s, down %s; accounting exact\n",
              bytes_text(averaging_number(bytes, "up")).c_str(), bytes_text(averaging_number(bytes, "down")).c_str());
  const Json& kept = *averaging.find("kept");
  std::printf(
      "if the server dies: its rounds are made again; each worker keeps its last %lld pushes (%s) for it, and an image of the server is "
      "made before it has pushed more\n",
      averaging_integer(kept, "pushes"), bytes_text(averaging_number(kept, "bytes")).c_str());
}

void print_fragment_table(const Json& table) {
  size_t width = 8;
  for (const Json& row : table.as_array()) width = std::max(width, row.find("name")->as_string().size());
  const int name = static_cast<int>(width);
  std::printf("%-*s  %12s  %10s  %-10s  %6s  %12s  %12s\n", name, "fragment", "parameters", "every", "codec", "gain", "as sums", "sent");
  for (const Json& row : table.as_array())
    std::printf("%-*s  %12s  %10s  %-10s  %6.3g  %12s  %12s\n", name, averaging_text(row, "name"),
                grouped(averaging_integer(row, "parameters")).c_str(), averaging_text(row, "every"), averaging_text(row, "codec"),
                averaging_number(row, "gain"), amount_text(averaging_number(row, "sums_bytes")).c_str(),
                amount_text(averaging_number(row, "sent_bytes")).c_str());
}

void print_fragments(const Json& fragments) {
  print_fragment_table(*fragments.find("table"));
  std::printf("bytes that the busiest of 4 workers sends in the largest round, and in the mean:");
  const auto& bytes = fragments.find("bytes")->as_array();
  for (size_t i = 0; i < bytes.size(); ++i)
    std::printf(" %s %s, %s%s", averaging_text(bytes[i], "topology"), amount_text(averaging_number(bytes[i], "largest")).c_str(),
                amount_text(averaging_number(bytes[i], "mean")).c_str(), i + 1 == bytes.size() ? "\n" : ";");
  if (const long long longest = averaging_integer(fragments, "longest_rounds"); longest > 1)
    std::printf(
        "accounting: bounded: what a lost worker did of a fragment since that was last averaged, at most %lld rounds, is lost though "
        "counted; the run's last round averages all\n",
        longest - 1);
}

void print_bytes(const Json& list) {
  std::printf("bytes that the busiest of 4 workers sends in one exchange:");
  const auto& bytes = list.as_array();
  for (size_t i = 0; i < bytes.size(); ++i)
    std::printf(" %s %s%s", averaging_text(bytes[i], "topology"), bytes_text(averaging_number(bytes[i], "bytes")).c_str(),
                i + 1 == bytes.size() ? "\n" : ",");
}

void print_inner(const Json& inner) {
  std::printf(
      "inside %s: %s every %lld steps, %lld times before each round of all; of two workers each sends %.0f bytes to the other each time\n",
      averaging_text(inner, "groups"), averaging_text(inner, "what"), averaging_integer(inner, "every"), averaging_integer(inner, "times"),
      averaging_number(inner, "bytes"));
  std::printf("rounds of all: 1/%.3g as many as every %lld steps; accounting: bounded, `perigee ledger` says of how many examples\n",
              averaging_number(inner, "rounds_share"), averaging_integer(inner, "every"));
}

}  // namespace

void print_averaging(const Json& averaging) {
  if (const Json* server = averaging.find("server")) return print_served(averaging, *server);
  std::string synchrony = averaging_text(averaging, "synchrony"), note;
  if (const Json* overlap = averaging.find("overlap")) synchrony += overlap->as_string();
  if (const Json* outer = averaging.find("outer")) {
    note = " with 4 workers";
    if (outer->find("may_diverge")->as_bool()) note += ", more than they are: a run may diverge";
  }
  std::printf("averaging on several workers: %s: %s, %s, %s%s, topology %s, %s; gain %.3g%s\n", averaging_text(averaging, "type"),
              when_of(averaging).c_str(), what_of(averaging).c_str(), averaging_text(averaging, "merge"), outer_of(averaging).c_str(),
              averaging_text(averaging, "topology"), synchrony.c_str(), averaging_number(averaging, "gain"), note.c_str());
  if (const Json* guard = averaging.find("guard"))
    std::printf("guards: a contribution of %g times the median change is left out%s\n", averaging_number(*guard, "outlier"),
                guard->find("divergence")->as_bool() ? "; a run that diverges is stopped" : "");
  if (const Json* fragments = averaging.find("fragments")) print_fragments(*fragments);
  if (const Json* bytes = averaging.find("bytes")) print_bytes(*bytes);
  if (const Json* inner = averaging.find("inner")) print_inner(*inner);
}

}  // namespace perigee
