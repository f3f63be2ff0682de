// `perigee cloud up aws --machines 4 --store s3://bucket/runs -- train lenet.lua`: rents machines, trains, and gives them back.
#include <unistd.h>
#include <CLI/App.hpp>

#include <cstdio>
#include <iostream>
#include <string>

#include "cluster/cloud/cloud_machine.h"
#include "cluster/cloud/cloud_run.h"
#include "repl/commands/command.h"
#include "repl/signals.h"
#include "src/core/error.h"
#include "src/core/json.h"

namespace perigee {
namespace {

struct CloudOptions {
  std::string action, what;
  std::vector<std::string> words;
  CloudRun run;
  bool all = false, json = false, yes = false, dry = false;
} cloud_options;

void declare_cloud(CLI::App& app) {
  CloudRun& run = cloud_options.run;
  run.order.types = {"c7i.large"}, run.order.role = "perigee", run.order.image = "resolve:ssm:/aws/service/debian/release/12/latest/amd64";
  app.add_option("action", cloud_options.action, "up: train on new machines; ls: list them; down: end them; policy: permissions for IAM")
      ->required()
      ->check(CLI::IsMember({"up", "ls", "down", "policy", "machine"}));
  app.add_option("what", cloud_options.what, "up, ls, policy: aws; down: a run's name");
  app.add_option("words", cloud_options.words, "up: behind --, what to run there: train SCRIPT ...");
  app.add_option("--machines", run.order.count, "how many; each trains")->check(CLI::Range(1, 1000));
  app.add_option("--type", run.order.types, "of machines; of several the first that AWS has")->delimiter(',')->allow_extra_args(false);
  app.add_flag("--spot", run.order.spot, "spare machines: cheaper, and AWS may take them back");
  app.add_option("--store", run.store, "s3://bucket/path for the run's folder: script, checkpoints, output");
  app.add_option("--package", run.package, "the .deb or .whl that each machine installs; without: their image has the program");
  app.add_option("--with", run.files, "more files that the script needs")->delimiter(',')->allow_extra_args(false);
  app.add_option("--hours", run.hours, "after which each machine ends itself, whatever happens")->check(CLI::Range(0.1, 720.0));
  app.add_option("--region", run.region, "of AWS; usual: AWS_REGION or the profile's");
  app.add_option("--image", run.order.image, "ami-..., or resolve:ssm:PARAMETER; usual: Debian 12");
  app.add_option("--role", run.order.role, "the machines' instance profile, which may use the store");
  app.add_option("--subnet", run.order.subnet, "where they are; usual: the account's default");
  app.add_option("--security-group", run.order.security_group, "must let the machines reach each other's --port");
  app.add_option("--key", run.order.key, "of EC2, to log in by ssh");
  app.add_option("--port", run.port, "of machine 0, for the others")->check(CLI::Range(1024, 65535));
  app.add_flag("--dry-run", cloud_options.dry, "print the price and what each machine would do; start nothing");
  app.add_flag("--yes", cloud_options.yes, "do not ask whether the price is right");
  app.add_flag("--all", cloud_options.all, "down: the machines of every run");
  app.add_flag("--json", cloud_options.json, "ls: as JSON");
  app.footer("perigee cloud up aws --machines 4 --spot --store s3://bucket/runs -- train lenet.lua");
}

[[noreturn]] void refuse_cloud(const std::string& where, const std::string& what, const std::string& hint) {
  throw Error(ErrorKind::usage, {.where = where, .what = what, .got = "", .expected = "", .hint = hint});
}

void expect_aws() {
  if (cloud_options.what != "aws")
    refuse_cloud("cloud " + cloud_options.action, "names no cloud",
                 "`perigee cloud " + cloud_options.action + " aws ...`: it is the one there is");
}

// "4 machines c7i.large (spot) in us-east-1: 0.120 USD an hour, at most 2.88 in 24 hours"
std::string price_line(const CloudRun& run, Machines& machines) {
  const std::string& type = run.order.types.at(0);
  const auto price = run.order.spot ? machines.spot_price(type) : machines.price(type);
  char text[300];
  const int length = std::snprintf(text, sizeof text, "%d machine%s %.60s%s in %.40s: ", run.order.count, run.order.count == 1 ? "" : "s",
                                   type.c_str(), run.order.spot ? " (spot)" : "", run.region.c_str());
  std::string line(text, static_cast<size_t>(length));
  if (!price) return line + "AWS does not tell the price";
  const double hour = *price * run.order.count;
  std::snprintf(text, sizeof text, "%.3f USD an hour, at most %.2f in %g hours", hour, hour * run.hours, run.hours);
  return line + text;
}

bool agreed() {
  if (cloud_options.yes) return true;
  if (!isatty(STDIN_FILENO))
    refuse_cloud("cloud up", "nobody can be asked whether this price is right", "--yes agrees, --dry-run only shows it");
  std::fprintf(stderr, "start them? [y/N] ");
  std::string answer;
  return std::getline(std::cin, answer) && (answer == "y" || answer == "yes");
}

int up() {
  expect_aws();
  CloudRun& run = cloud_options.run;
  run.words = cloud_options.words;
  check_cloud_run(&run);
  Machines machines(run.region);
  std::printf("%s\n", price_line(run, machines).c_str());
  if (cloud_options.dry) {
    std::printf("\n%s", run.order.user_data.c_str());
    return 0;
  }
  if (!agreed()) return 0;
  watch_signals("\nperigee: the machines write a checkpoint and end; once more leaves them alone: `perigee cloud ls aws`\n");
  std::printf("run %s; its folder is %s\n", run.order.run.c_str(), run.folder().address().c_str());
  std::fflush(stdout);
  const auto show = [](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  };
  const int code = run_in_cloud(run, &machines, show, stop_requested());
  std::printf("all machines have ended; checkpoints and output are in %s\n", run.folder().address().c_str());
  return stop_requested() ? stop_exit_code() : code;
}

int ls() {
  expect_aws();
  const std::vector<Machine> all = Machines(cloud_options.run.region).list("");
  Json list = Json::array();
  for (const Machine& machine : all) {
    Json json = Json::object();
    for (const auto& [key, value] : {std::pair<const char*, const std::string&>{"id", machine.id},
                                     {"run", machine.run},
                                     {"type", machine.type},
                                     {"state", machine.state},
                                     {"address", machine.address},
                                     {"started", machine.started},
                                     {"until", machine.until}})
      json.set(key, value);
    json.set("spot", machine.spot);
    list.push(std::move(json));
  }
  if (cloud_options.json) {
    std::printf("%s\n", list.dump(2).c_str());
    return 0;
  }
  if (all.empty()) std::printf("no machines in %s\n", cloud_options.run.region.c_str());
  for (const Machine& machine : all)
    std::printf("%-20s %-40s %-12s %-13s %s since %s, until %s at the latest\n", machine.id.c_str(), machine.run.c_str(),
                machine.type.c_str(), machine.state.c_str(), machine.spot ? "spot" : "    ", machine.started.c_str(),
                machine.until.c_str());
  return 0;
}

int down() {
  if (cloud_options.what.empty() == !cloud_options.all)
    refuse_cloud("cloud down", "names no run", "`perigee cloud ls aws` shows their names; --all ends the machines of every run");
  Machines machines(cloud_options.run.region);
  std::vector<Machine> found = machines.list(cloud_options.all ? "" : cloud_options.what);
  std::erase_if(found, [](const Machine& machine) { return machine.ends(); });
  machines.end(found);
  for (const Machine& machine : found) std::printf("%s of %s ends\n", machine.id.c_str(), machine.run.c_str());
  if (found.empty())
    std::printf("no machines of %s in %s\n", cloud_options.all ? "any run" : cloud_options.what.c_str(), cloud_options.run.region.c_str());
  return 0;
}

int policy() {
  expect_aws();
  const std::string bucket = cloud_options.run.store.starts_with("s3://") ? cloud_options.run.store.substr(5) : "BUCKET/PATH";
  std::printf("For who calls `perigee cloud`:\n\n%s\nFor the role `%s` of the machines:\n\n%s", cloud_policy(bucket, false).c_str(),
              cloud_options.run.order.role.c_str(), cloud_policy(bucket, true).c_str());
  return 0;
}

int run_cloud() {
  if (cloud_options.run.region.empty()) cloud_options.run.region = aws_settings().region;
  if (cloud_options.action == "up") return up();
  if (cloud_options.action == "ls") return ls();
  if (cloud_options.action == "down") return down();
  if (cloud_options.action == "policy") return policy();
  return run_cloud_machine(cloud_options.what);
}

}  // namespace

extern const Command command_cloud;
const Command command_cloud{.name = "cloud", .doc = "train on machines that are rented for it", .declare = declare_cloud, .run = run_cloud};

}  // namespace perigee
