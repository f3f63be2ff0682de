#include "cluster/cloud/machines.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>
#include <ctime>

#include "src/core/error.h"
#include "src/core/json.h"
#include "src/io/base64.h"
#include "src/io/digest.h"
#include "src/io/file.h"

namespace perigee {
namespace {

constexpr size_t kMostPages = 1000;

// AWS has no such machines now: another type may do.
constexpr std::array<const char*, 6> kLacking = {"InsufficientInstanceCapacity", "SpotMaxPriceTooLow",
                                                 "MaxSpotInstanceCountExceeded", "VcpuLimitExceeded",
                                                 "InstanceLimitExceeded",        "Unsupported"};

// EC2's code in an answer that refuses.
std::string code_of(const AwsApi::Answer& answer) { return xml_text(answer.body, "Code"); }

// The value of a tag; other things of a machine may have tags too.
std::string tag_of(std::string_view xml, const char* key) {
  const size_t at = xml.find("<key>" + std::string(key) + "</key>");
  return at == std::string_view::npos ? "" : xml_text(xml.substr(at), "value");
}

// The items of the list that begins at `at`; items in them belong to them. The order within an item differs between servers.
std::vector<std::string_view> items_at(std::string_view xml, size_t at) {
  std::vector<std::string_view> items;
  size_t begin = 0;
  for (int depth = 0; (at = xml.find_first_of('<', at)) != std::string_view::npos; ++at) {
    const std::string_view rest = xml.substr(at);
    if (rest.starts_with("<item>") && depth++ == 0) begin = at;
    if (rest.starts_with("</item>") && --depth == 0) items.push_back(xml.substr(begin, at - begin));
    if (depth < 0 || (depth == 0 && rest.starts_with("</instancesSet>"))) break;
  }
  return items;
}

Machine machine_of(std::string_view xml) {
  return {.id = xml_text(xml, "instanceId"),
          .run = tag_of(xml, kRunTag),
          .type = xml_text(xml, "instanceType"),
          .state = xml_text(xml_text(xml, "instanceState"), "name"),
          .address = xml_text(xml, "ipAddress"),
          .started = xml_text(xml, "launchTime").substr(0, 19),
          .until = tag_of(xml, kUntilTag),
          .spot = xml_text(xml, "instanceLifecycle") == "spot"};
}

std::optional<double> number_of(const std::string& text) {
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size() || !(value > 0)) return std::nullopt;
  return value;
}

// The price in one entry of AWS's price list, of which the deepest member is called USD.
std::optional<double> dollars_in(const Json& json) {
  if (json.is_object())
    for (const auto& [key, value] : json.as_object()) {
      if (key == "USD" && value.is_string()) return number_of(value.as_string());
      if (const auto found = dollars_in(value)) return found;
    }
  return std::nullopt;
}

}  // namespace

Machines::Machines(const std::string& region) : ec2_("ec2", "ec2." + region + ".amazonaws.com", region) {}

std::string Machines::call(const std::string& action, Parameters parameters) {
  parameters.emplace_back("Action", action);
  parameters.emplace_back("Version", "2016-11-15");
  const AwsApi::Answer answer =
      ec2_.post(canonical_query(std::move(parameters)), {{"content-type", "application/x-www-form-urlencoded; charset=utf-8"}});
  if (!answer.ok()) refuse(action, answer);
  return answer.body;
}

void Machines::refuse(const std::string& action, const AwsApi::Answer& answer) {
  const std::string where = "EC2 in " + ec2_.region(), code = code_of(answer), message = xml_text(answer.body, "Message").substr(0, 300);
  if (answer.status == 0)
    throw Error(ErrorKind::resources, {.where = where,
                                       .what = "cannot be reached",
                                       .got = answer.problem,
                                       .hint = "check the network and --region; `perigee cloud ls` shows what runs"});
  if (std::find(kLacking.begin(), kLacking.end(), code) != kLacking.end())
    throw Error(ErrorKind::resources,
                {.where = where,
                 .what = "has no such machines for this account now",
                 .got = code + ": " + message,
                 .hint = "name more types, as in --type c7i.large,c6i.large, another --region, or leave --spot away"});
  if (code == "UnauthorizedOperation" || code == "AuthFailure" || answer.status == 401 || answer.status == 403)
    throw Error(ErrorKind::authentication,
                {.where = where,
                 .what = "does not allow " + action,
                 .got = code + ": " + message,
                 .hint = "`perigee cloud policy aws` prints the permissions that are needed; the keys come from " + ec2_.source()});
  throw Error(ErrorKind::usage,
              {.where = where, .what = "refuses " + action, .got = code + ": " + message, .hint = "check the options it names"});
}

std::string Machines::start(const MachineOrder& order) {
  Parameters all = {{"ImageId", order.image},
                    {"MinCount", std::to_string(order.count)},
                    {"MaxCount", std::to_string(order.count)},
                    {"InstanceInitiatedShutdownBehavior", "terminate"},
                    {"MetadataOptions.HttpTokens", "required"},
                    {"MetadataOptions.HttpEndpoint", "enabled"},
                    {"IamInstanceProfile.Name", order.role},
                    {"UserData", base64(order.user_data)}};
  if (order.spot) {
    all.emplace_back("InstanceMarketOptions.MarketType", "spot");
    all.emplace_back("InstanceMarketOptions.SpotOptions.InstanceInterruptionBehavior", "terminate");
    all.emplace_back("InstanceMarketOptions.SpotOptions.SpotInstanceType", "one-time");
  }
  if (!order.subnet.empty()) all.emplace_back("SubnetId", order.subnet);
  if (!order.security_group.empty()) all.emplace_back("SecurityGroupId.1", order.security_group);
  if (!order.key.empty()) all.emplace_back("KeyName", order.key);
  int number = 1;
  for (const char* kind : {"instance", "volume"}) {
    const std::string tags = "TagSpecification." + std::to_string(number++) + ".";
    all.emplace_back(tags + "ResourceType", kind);
    int tag = 1;
    for (const auto& [key, value] : {std::pair{kRunTag, order.run}, {kUntilTag, order.until}, {"Name", "perigee-" + order.run}}) {
      const std::string one = tags + "Tag." + std::to_string(tag++) + ".";
      all.emplace_back(one + "Key", key);
      all.emplace_back(one + "Value", value);
    }
  }
  assert(!order.types.empty());
  for (size_t i = 0;; ++i) {
    const std::string& type = order.types[i];
    Parameters parameters = all;
    parameters.emplace_back("InstanceType", type);
    parameters.emplace_back("ClientToken", sha256_hex(as_bytes(order.run + "/" + type)));  // at most 64 letters
    try {
      call("RunInstances", std::move(parameters));
      return type;
    } catch (const Error& error) {
      const bool lacks =
          std::any_of(kLacking.begin(), kLacking.end(), [&](const char* code) { return error.parts().got.starts_with(code); });
      if (!lacks || i + 1 == order.types.size()) throw;
    }
  }
}

std::vector<Machine> Machines::list(const std::string& run) {
  Parameters all = {{"Filter.1.Name", run.empty() ? "tag-key" : std::string("tag:") + kRunTag},
                    {"Filter.1.Value.1", run.empty() ? kRunTag : run}};
  all.emplace_back("Filter.2.Name", "instance-state-name");
  int number = 1;
  for (const char* state : {"pending", "running", "shutting-down", "stopping", "stopped"})
    all.emplace_back("Filter.2.Value." + std::to_string(number++), state);
  std::vector<Machine> machines;
  std::string token;
  for (size_t page = 0; page < kMostPages; ++page) {
    Parameters parameters = all;
    if (!token.empty()) parameters.emplace_back("NextToken", token);
    const std::string xml = call("DescribeInstances", std::move(parameters));
    for (size_t at = xml.find("<instancesSet>"); at != std::string::npos; at = xml.find("<instancesSet>", at + 1))
      for (const std::string_view item : items_at(xml, at)) machines.push_back(machine_of(item));
    token = xml_text(xml, "nextToken");
    if (token.empty()) break;
  }
  return machines;
}

void Machines::end(const std::vector<Machine>& machines) {
  if (machines.empty()) return;
  Parameters parameters;
  for (const Machine& machine : machines) parameters.emplace_back("InstanceId." + std::to_string(parameters.size() + 1), machine.id);
  call("TerminateInstances", std::move(parameters));
}

std::optional<double> Machines::spot_price(const std::string& type) {
  const std::string now = aws_date(std::time(nullptr));  // the price that holds now
  const std::string time =
      now.substr(0, 4) + "-" + now.substr(4, 2) + "-" + now.substr(6, 5) + ":" + now.substr(11, 2) + ":" + now.substr(13);
  const std::string xml = call("DescribeSpotPriceHistory",
                               {{"InstanceType.1", type}, {"ProductDescription.1", "Linux/UNIX"}, {"StartTime", time}, {"EndTime", time}});
  std::optional<double> most;  // of the zones
  size_t at = 0;
  for (std::string text; xml_text(xml, "spotPrice", at, text);)
    if (const auto price = number_of(text)) most = std::max(most.value_or(0), *price);
  return most;
}

// https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_pricing_GetProducts.html
std::optional<double> Machines::price(const std::string& type) {
  AwsApi api("pricing", "api.pricing.us-east-1.amazonaws.com", "us-east-1");
  Json filters = Json::array();
  for (const auto& [field, value] : {std::pair<const char*, std::string>{"instanceType", type},
                                     {"regionCode", ec2_.region()},
                                     {"operatingSystem", "Linux"},
                                     {"tenancy", "Shared"},
                                     {"preInstalledSw", "NA"},
                                     {"capacitystatus", "Used"}}) {
    Json filter = Json::object();
    filter.set("Type", "TERM_MATCH");
    filter.set("Field", field);
    filter.set("Value", value);
    filters.push(std::move(filter));
  }
  Json request = Json::object();
  request.set("ServiceCode", "AmazonEC2");
  request.set("Filters", std::move(filters));
  const AwsApi::Answer answer =
      api.post(request.dump(), {{"content-type", "application/x-amz-json-1.1"}, {"x-amz-target", "AWSPriceListService.GetProducts"}});
  if (!answer.ok()) return std::nullopt;
  try {
    const Json json = Json::parse(answer.body, "AWS's price list");
    const Json* list = json.find("PriceList");
    if (list == nullptr || !list->is_array() || list->as_array().empty() || !list->as_array()[0].is_string()) return std::nullopt;
    const Json entry = Json::parse(list->as_array()[0].as_string(), "AWS's price list");
    const Json* terms = entry.find("terms");
    const Json* demand = terms != nullptr ? terms->find("OnDemand") : nullptr;
    return demand != nullptr ? dollars_in(*demand) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace perigee
