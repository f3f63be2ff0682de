#include "cluster/cloud/cloud_run.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <optional>
#include <thread>
#include <utility>

#include "cluster/launch/secret.h"
#include "src/core/error.h"
#include "src/core/json.h"
#include "src/core/replace_all.h"
#include "src/core/warning.h"
#include "src/io/file.h"
#include "src/io/store/store.h"

namespace perigee {
namespace {

using CloudRunClock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kCloudRunLookEvery = 5s;
constexpr auto kAloneWithin = 10min;       // without AWS: a caller's network comes back
constexpr auto kStopWithin = 120s;         // for a checkpoint, once the caller wants to end
constexpr auto kCloudRunEndWithin = 120s;  // for EC2 to end machines
constexpr auto kBeginWithin = 60s;         // until a machine that was started is in EC2's lists

constexpr const char* kUserData = R"sh(#!/bin/bash
# A machine of the Perigee run @RUN@. It ends itself: when the training has ended, and at the latest after @MINUTES@ minutes.
shutdown -P +@MINUTES@
trap 'shutdown -P now' EXIT
export AWS_REGION=@REGION@ HOME=${HOME:-/root}
mkdir -p /var/lib/perigee/@RUN@ && cd /var/lib/perigee/@RUN@ || exit 1
@INSTALL@perigee cloud machine @FOLDER@
)sh";

// With the keys of the machine's role: none stands in here.
constexpr const char* kInstall = R"sh(base=${AWS_EC2_METADATA_SERVICE_ENDPOINT:-http://169.254.169.254}/latest
token=$(curl -sf -X PUT -H "X-aws-ec2-metadata-token-ttl-seconds: 300" $base/api/token)
ask() { curl -sf -H "X-aws-ec2-metadata-token: $token" $base/meta-data/iam/security-credentials/$1; }
keys=$(ask "$(ask)")
field() { sed -n "s/.*\"$1\" *: *\"\([^\"]*\)\".*/\1/p" <<< "$keys"; }
curl -sf --retry 5 --aws-sigv4 aws:amz:@REGION@:s3 --user "$(field AccessKeyId):$(field SecretAccessKey)" \
  -H "x-amz-security-token: $(field Token)" -H "x-amz-content-sha256: UNSIGNED-PAYLOAD" \
  -o @PACKAGE@ ${AWS_ENDPOINT_URL:-https://s3.@REGION@.amazonaws.com}/@PACKAGE_KEY@ || exit 1
@HOW@)sh";
constexpr const char* kInstallDeb = "apt-get update -q; apt-get install -q -y ./@PACKAGE@ || exit 1\n";
constexpr const char* kInstallWheel =
    "apt-get update -q; apt-get install -q -y python3-venv && python3 -m venv venv && venv/bin/pip install -q ./@PACKAGE@ || exit 1\n"
    "PATH=$PWD/venv/bin:$PATH\n";

constexpr const char* kMachinePolicy = R"({
  "Version": "2012-10-17",
  "Statement": [
    { "Effect": "Allow", "Action": ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"], "Resource": "arn:aws:s3:::@BUCKET@/*" },
    { "Effect": "Allow", "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::@BUCKET_ALONE@" }
  ]
}
)";
constexpr const char* kCallerPolicy = R"({
  "Version": "2012-10-17",
  "Statement": [
    { "Effect": "Allow", "Action": ["ec2:DescribeInstances", "ec2:DescribeSpotPriceHistory", "pricing:GetProducts"], "Resource": "*" },
    { "Effect": "Allow", "Action": ["ec2:RunInstances", "ec2:CreateTags"], "Resource": "*" },
    { "Effect": "Allow", "Action": "ec2:TerminateInstances", "Resource": "*",
      "Condition": { "Null": { "aws:ResourceTag/perigee-run": "false" } } },
    { "Effect": "Allow", "Action": "ssm:GetParameters", "Resource": "arn:aws:ssm:*::parameter/aws/service/*" },
    { "Effect": "Allow", "Action": "iam:PassRole", "Resource": "arn:aws:iam::*:role/perigee" },
    { "Effect": "Allow", "Action": ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"], "Resource": "arn:aws:s3:::@BUCKET@/*" },
    { "Effect": "Allow", "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::@BUCKET_ALONE@" }
  ]
}
)";

std::string file_name(const std::string& path) { return std::filesystem::path(path).filename().string(); }

// 2026-11-27T04:00:00Z
std::string time_text(std::time_t time) {
  std::tm utc = {};
  gmtime_r(&time, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

bool shell_word(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) || std::string_view("._-/:+").find(static_cast<char>(c)) != std::string_view::npos;
  });
}

[[noreturn]] void refuse_cloud_run(const std::string& where, const std::string& what, const std::string& got, const std::string& hint) {
  throw Error(ErrorKind::usage, {.where = where, .what = what, .got = got, .hint = hint});
}

// Local files among the words go along, and are called by their names there.
void take_files(CloudRun* run) {
  for (size_t i = 1; i < run->words.size(); ++i) {
    std::string& word = run->words[i];
    if (word.starts_with('-') || is_store_path(word)) continue;
    if (i == 1) expect_there(word);
    if (!file_exists(word)) continue;
    run->files.push_back(word);
    word = file_name(word);
  }
  std::vector<std::string> names;
  if (!run->package.empty()) names.push_back(file_name(run->package));
  for (const std::string& file : run->files) {
    expect_there(file);
    const std::string name = file_name(file);
    if (!shell_word(name) || name.starts_with('.'))
      refuse_cloud_run(file, "has a letter that file names of a run cannot have", name, "rename it");
    if (std::find(names.begin(), names.end(), name) != names.end() || name == kSecretFile || name == kOutputFile)
      refuse_cloud_run(file, "another file of the run has this name", name, "rename one of them");
    names.push_back(name);
  }
}

void write_folder(const CloudRun& run) {
  const CloudFolder folder = run.folder();
  for (const std::string& file : run.files) write_file(folder.file(file_name(file)), MappedFile(file).bytes());
  if (!run.package.empty()) write_file(folder.file(file_name(run.package)), MappedFile(run.package).bytes());
  write_file(folder.secret(), as_bytes(Secret::random().text()));
  Json json = Json::object(), words = Json::array(), files = Json::array();
  for (const std::string& word : run.words) words.push(word);
  for (const std::string& file : run.files) files.push(file_name(file));
  json.set("words", std::move(words));
  json.set("files", std::move(files));
  json.set("machines", run.order.count);
  json.set("port", run.port);
  write_file(folder.order(), as_bytes(json.dump(2)));
}

size_t running(const std::vector<Machine>& machines) {
  return static_cast<size_t>(std::count_if(machines.begin(), machines.end(), [](const Machine& m) { return !m.ends(); }));
}

// Ends what is left of a run. EC2's lists are some seconds old: an empty one counts when it is the second, or machines were seen before.
void end_all(const std::string& run, Machines* machines) {
  std::vector<Machine> left;
  bool seen = false;
  for (const auto begun = CloudRunClock::now(); CloudRunClock::now() - begun < kCloudRunEndWithin;
       std::this_thread::sleep_for(kCloudRunLookEvery)) {
    left = machines->list(run);
    seen |= !left.empty();
    std::erase_if(left, [](const Machine& m) { return m.ends(); });
    if (left.empty() && std::exchange(seen, true)) return;
    machines->end(left);
  }
  std::string names;
  for (const Machine& machine : left) names += (names.empty() ? "" : " ") + machine.id;
  throw Error(ErrorKind::cluster,
              {.where = run,
               .what = "EC2 does not end these machines",
               .got = names,
               .hint = "they cost money: `perigee cloud down " + run + "`, or aws ec2 terminate-instances --instance-ids " + names});
}

void clean_up(const CloudRun& run, Machines* machines) {
  end_all(run.order.run, machines);
  remove_stored(run.folder().secret());
}

// Pieces of machine 0's output, in turn.
class Shown {
 public:
  Shown(CloudFolder folder, const std::function<void(std::string_view)>& show) : folder_(std::move(folder)), show_(show) {}
  void more() {
    for (std::string piece; !(piece = text_in_store(folder_.output(next_))).empty(); ++next_) show_(piece);
  }

 private:
  const CloudFolder folder_;
  const std::function<void(std::string_view)>& show_;
  int next_ = 1;
};

// A run as its folder and EC2's lists show it.
class Watch {
 public:
  Watch(const CloudRun& run, Machines* machines, const std::function<void(std::string_view)>& show)
      : run_(run), machines_(machines), show_(show), shown_(run.folder(), show) {}

  // The exit code, once there is a result. Error(cluster) when all machines are gone without one.
  std::optional<int> look() {
    const bool gone = CloudRunClock::now() - begun_ > kBeginWithin && running(machines_->list(run_.order.run)) == 0;
    shown_.more();
    if (const std::string result = text_in_store(run_.folder().result()); !result.empty()) {
      shown_.more();
      show_(result.substr(std::min(result.size(), result.find('\n') + 1)));  // why it could not begin
      return static_cast<int>(std::strtol(result.c_str(), nullptr, 10));
    }
    if (gone) fail();
    return std::nullopt;
  }

 private:
  [[noreturn]] void fail() {
    for (int i = 1; i < run_.order.count; ++i)
      if (const std::string failed = text_in_store(run_.folder().failed(i)); !failed.empty())
        warn("machine " + std::to_string(i) + ": " + failed.substr(failed.find('\n') + 1));
    throw Error(ErrorKind::cluster, {.where = run_.order.run,
                                     .what = "all machines are gone, and machine 0 left no result",
                                     .got = "",
                                     .hint = "go on from the last checkpoint: `perigee cloud up … -- train " + run_.words[1] +
                                             " --resume " + run_.folder().run() + "`"});
  }

  const CloudRun& run_;
  Machines* machines_;
  const std::function<void(std::string_view)>& show_;
  Shown shown_;
  const CloudRunClock::time_point begun_ = CloudRunClock::now();
};

// Until there is a result, or a checkpoint had its time after `stop`.
int watch(const CloudRun& run, Machines* machines, const std::function<void(std::string_view)>& show, const std::atomic<bool>& stop) {
  Watch watch(run, machines, show);
  CloudRunClock::time_point stopped = CloudRunClock::time_point::max(), reached = CloudRunClock::now();
  for (;; std::this_thread::sleep_for(kCloudRunLookEvery)) {
    if (stop && stopped == CloudRunClock::time_point::max()) {
      write_file(run.folder().stop(), as_bytes(std::string_view("stop\n")));
      stopped = CloudRunClock::now();
    }
    try {
      if (const auto code = watch.look()) return *code;
      reached = CloudRunClock::now();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::resources || stop || CloudRunClock::now() - reached > kAloneWithin) throw;
    }
    if (stop && CloudRunClock::now() - stopped > kStopWithin) return 130;
  }
}

}  // namespace

void check_cloud_run(CloudRun* run) {
  if (!run->store.starts_with("s3://") || run->store.size() <= 5 || !shell_word(run->store))
    refuse_cloud_run("--store", "is no place in S3 for the run", "'" + run->store + "'", "for example --store s3://bucket/runs");
  while (run->store.ends_with('/')) run->store.pop_back();
  if (run->words.size() < 2 || run->words[0] != "train")
    refuse_cloud_run("cloud up", "says not what to train", "",
                     "for example `perigee cloud up aws --store s3://bucket/runs -- train lenet.lua`");
  for (const char* own : {"--out", "--secret", "--workers", "--agents", "--listen", "--join", "--detach"})
    for (const std::string& word : run->words)
      if (word == own || word.starts_with(std::string(own) + "="))
        refuse_cloud_run(own, "is set by `perigee cloud up` itself", "", "leave it away; --machines says how many train");
  if (!run->package.empty()) {
    expect_there(run->package);
    if ((!run->package.ends_with(".deb") && !run->package.ends_with(".whl")) || !shell_word(file_name(run->package)))
      refuse_cloud_run("--package", "is no package of Perigee", run->package, "a .deb or .whl, as `./perigee package` makes them");
  }
  for (const auto& [where, text] : {std::pair<const char*, const std::string&>{"--region", run->region}, {"--role", run->order.role}})
    if (!shell_word(text)) refuse_cloud_run(where, "is no name", "'" + text + "'", "letters, digits and dashes");
  take_files(run);
  const std::string name = std::filesystem::path(run->words[1]).stem().string();
  std::string plain;
  for (const char c : name) plain += std::isalnum(static_cast<unsigned char>(c)) ? c : '-';
  run->order.run = plain.substr(0, 40) + "-" + Secret::random().hex().substr(0, 10);
  run->order.until = time_text(std::time(nullptr) + static_cast<std::time_t>(run->hours * 3600));
  if (std::find(run->words.begin(), run->words.end(), "--resume") == run->words.end())
    for (const std::string& word : {std::string("--out"), run->folder().run()}) run->words.push_back(word);
  run->order.user_data = user_data_of(*run);
}

std::string user_data_of(const CloudRun& run) {
  std::string text = kUserData, install;
  const std::string package = file_name(run.package);
  if (!run.package.empty()) {
    install = kInstall;
    replace_all(install, "@HOW@", run.package.ends_with(".deb") ? kInstallDeb : kInstallWheel);
  }
  replace_all(text, "@INSTALL@", install);
  for (const auto& [from, to] : {std::pair<const char*, std::string>{"@RUN@", run.order.run},
                                 {"@MINUTES@", std::to_string(std::max(5L, std::lround(run.hours * 60)))},
                                 {"@REGION@", run.region},
                                 {"@FOLDER@", run.folder().address()},
                                 {"@PACKAGE_KEY@", run.folder().file(package).substr(std::string_view("s3://").size())},
                                 {"@PACKAGE@", package}})
    replace_all(text, from, to);
  return text;
}

std::string cloud_policy(const std::string& bucket, bool of_machines) {
  std::string text = of_machines ? kMachinePolicy : kCallerPolicy;
  replace_all(text, "@BUCKET@", bucket);
  replace_all(text, "@BUCKET_ALONE@", bucket.substr(0, bucket.find('/')));
  return text;
}

int run_in_cloud(CloudRun run, Machines* machines, const std::function<void(std::string_view)>& show, const std::atomic<bool>& stop) {
  write_folder(run);
  int code = 0;
  try {
    run.order.types = {machines->start(run.order)};
    code = watch(run, machines, show, stop);
  } catch (const Error& error) {
    try {
      clean_up(run, machines);  // also machines of an order whose answer was lost
    } catch (const Error& also) {
      warn(also.what());
    }
    throw;
  }
  clean_up(run, machines);
  return code;
}

}  // namespace perigee
