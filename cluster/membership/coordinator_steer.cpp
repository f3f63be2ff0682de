// Requests to a run while it trains (steer.h). None takes effect at once: a pause and an option of the job wait for the next change of
// generation, so that they hold for all replicas from the same round on; local steps go out with the next leases; the rest is the
// launcher's. A standby is told what was asked, and its coordinator asks for it anew; one that is started again (--resume) is not: pauses
// end, and the job's own values hold again.
#include <algorithm>
#include <cassert>
#include <utility>

#include "cluster/membership/coordinator_core.h"
#include "cluster/protocol/steer.h"

namespace perigee {
namespace {

constexpr const char* kRequested = "on request";  // the reason in the events of this file

[[noreturn]] void not_every(const std::string& what, const std::string& got, const std::string& hint = "") {
  throw Error(ErrorKind::usage, {.where = "averaging.every", .what = what, .got = got, .hint = hint});
}

}  // namespace

void CoordinatorCore::on_steer(PeerId peer, const Steer& message) {
  Json refused;
  try {
    if (!options.steerable)
      throw Error(
          ErrorKind::authentication,
          {.what = "this run can be watched, not steered",
           .got = "a connection without a secret",
           .hint = "train with `perigee train --secret FILE`, and give the same file to `perigee attach`; `perigee secret new` makes one"});
    // A frame that comes again is answered again, and not done again: what was asked for since holds.
    std::erase_if(steered, [&](const auto& one) { return !strangers.contains(one.first); });
    uint64_t& last_request = steered[peer];
    const bool is_new = message.request > last_request;
    last_request = std::max(last_request, message.request);
    if (is_new) steer(Json::parse(message.json, "command"));
  } catch (const Error& error) {
    const Error::Parts& why = error.parts();
    refused = Json(Json::Object{{"kind", static_cast<int64_t>(error.kind())},
                                {"what", (why.where.empty() ? "" : why.where + ": ") + why.what},
                                {"got", why.got},
                                {"expected", why.expected},
                                {"hint", why.hint}});
  }
  Json told = status();
  told.set("answers", static_cast<int64_t>(message.request));
  if (!refused.is_null()) told.set("refused", std::move(refused));
  transport.send(peer, encode(Report{.json = told.dump()}, header(books.round())));
}

void CoordinatorCore::steer(const Json& json) {
  const SteerCommand command = read_steer(json);
  if (phase == Phase::stopped) throw Error(ErrorKind::usage, {.where = command.text(), .what = "the run is over"});
  if (command.kick) return kick(*command.kick);
  if (command.pause) return pause(*command.pause);
  if (command.every) return set_every(*command.every);
  if (!command.option.empty()) return set_option(command.option, command.value);
  if (const std::string problem = events.on_asked(command.stop ? Asked::stop : Asked::checkpoint); !problem.empty())
    throw Error(ErrorKind::usage, {.where = command.text(), .what = problem});
}

// It ends; its starter starts another one in its place.
void CoordinatorCore::kick(WorkerId id) {
  if (!nodes.contains(id)) {
    std::string known;
    for (const auto& [each, node] : nodes) known += (known.empty() ? "" : ", ") + std::to_string(each) + " (" + node.name + ")";
    throw Error(ErrorKind::usage, {.where = "kick",
                                   .what = "there is no such worker",
                                   .got = std::to_string(id),
                                   .expected = known.empty() ? "none is there" : "one of " + known});
  }
  if (holds_alone(id))
    throw Error(ErrorKind::usage, {.where = "kick",
                                   .what = nodes.at(id).name + " alone holds the result of round " + std::to_string(books.round()),
                                   .hint = "pause the run and write a checkpoint: then it may go"});
  evict(id, Eviction::kicked, kRequested);
}

// With it the last rounds would be lost: no other worker holds them, and no checkpoint.
bool CoordinatorCore::holds_alone(WorkerId id) const {
  const auto holds = [&](const Node& node) { return rounds->holds_results(node) && node.hash != 0 && node.round >= books.round(); };
  if (books.round() < 0 || !holds(nodes.at(id)) || (options.resume_image && options.resume_round >= books.round())) return false;
  return std::none_of(nodes.begin(), nodes.end(), [&](const auto& other) { return other.first != id && holds(other.second); });
}

// The next moment between two rounds is a change of generation: StartEpoch says what holds from there on, or waits.
void CoordinatorCore::want_border() {
  if (phase != Phase::running || start_held) return;  // the next StartEpoch is still to come
  form_wanted = true;
  if (!border && !finished) form_if_calm();
}

void CoordinatorCore::pause(bool on) {
  if (on == pause_wanted) return;
  pause_wanted = on;
  tell_steering();
  if (on) return want_border();
  if (std::exchange(pause_told, false)) event("resumed", nullptr, kRequested, "training goes on");
  if (phase == Phase::running && start_held && !border && !finished) send_start();
}

// True: StartEpoch waits. Everybody holds the result, and what had been begun has been said.
bool CoordinatorCore::pauses() {
  if (!pause_wanted) return false;
  if (!std::exchange(pause_told, true)) event("paused", nullptr, kRequested, "all workers wait until they are told to go on");
  return true;
}

void CoordinatorCore::set_every(int64_t every) {
  const Policy& policy = options.policy;
  const std::string got = std::to_string(every);
  if (policy.what != Policy::What::parameters)
    not_every("averaging '" + policy.name + "' sends gradients: it averages at each step", got,
              "a policy of parameters has steps in between");
  if (policy.every_ms > 0) not_every("the averages of this run come by time", got, "start the run with 'every' in the place of 'every_ms'");
  if (policy.inner.active())
    not_every("groups of workers average in between, by a plan of the whole round", got, "start the run with another 'every'");
  if (every % policy.fragments != 0)
    not_every("is no multiple of the " + std::to_string(policy.fragments) + " fragments, which take turns", got,
              "the next one is " + std::to_string((every / policy.fragments + 1) * policy.fragments));
  if (policy.late > 0 && every / policy.fragments <= policy.late)
    not_every("a result is taken after " + std::to_string(policy.late) + " steps: that is not before the next round", got,
              "at least " + std::to_string((policy.late + 1) * policy.fragments));
  control.pace.set_every(every);
  control.told_every = every;
  tell_steering();
  event("every", nullptr, kRequested, "averages every " + got + " steps, from the next round on");
  if (start_allowed()) rounds->top_up_all();  // else with the leases after StartEpoch
}

// Replicas that update or take an outer step with different numbers would not be equal any more: it is said with StartEpoch.
void CoordinatorCore::set_option(const std::string& option, const Json& value) {
  if (options.recorded)
    throw Error(
        ErrorKind::usage,
        {.where = "run." + option, .what = "this run is recorded, to be trained again as its job says", .hint = "train without --record"});
  const std::string name = options.check_option ? options.check_option(settings, option, value) : option;
  Json next = settings;
  next.set(name, value);
  if (const size_t bytes = next.dump().size(); bytes > kMaxText)
    throw Error(ErrorKind::usage, {.where = "run." + option,
                                   .what = "all that was set is too long to be told",
                                   .got = std::to_string(bytes) + " bytes of JSON",
                                   .expected = "at most " + std::to_string(kMaxText),
                                   .hint = "set fewer options, or start the run again with them in its job"});
  settings = std::move(next);
  tell_steering();
  event("set", nullptr, kRequested, name + " is " + value.dump() + " from the next round on");
  want_border();
}

// For the standby.
std::string CoordinatorCore::steering() const {
  Json asked = Json(Json::Object{{"settings", settings}, {"pause", pause_wanted}});
  if (control.pace.is_set()) asked.set("every", control.pace.every());
  return asked.dump();
}

// It was checked by the coordinator that took it, which had the same job.
void CoordinatorCore::take_over_steering() {
  const Json asked = Json::parse(options.steering, "what was asked of the run");
  if (const Json* set = asked.find("settings"); set && set->is_object()) settings = *set;
  if (const Json* on = asked.find("pause")) pause_wanted = *on == Json(true);
  const Json* every = asked.find("every");
  if (!every || !every->is_int()) return;
  control.pace.set_every(every->as_int());
  control.told_every = every->as_int();
}

}  // namespace perigee
