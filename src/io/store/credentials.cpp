#include "src/io/store/credentials.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <map>

#include "src/core/error.h"
#include "src/core/json.h"
#include "src/io/store/instance_metadata.h"
#include "src/io/store/transfer.h"
#include "src/io/store/url.h"

namespace perigee {
namespace {

constexpr uint64_t kLargestFile = 1 << 20;
constexpr int64_t kRenewBefore_s = 300;

std::string credentials_variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string first_of(std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (std::string value = credentials_variable(name); !value.empty()) return value;
  return "";
}

std::string credentials_trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1));
}

std::string small_file(const std::string& path) { return std::string(as_text(read_file(path, kLargestFile))); }

using Section = std::map<std::string, std::string>;

// A section of an INI file of AWS's tools; lines that are indented belong to a nested table, which nothing here needs.
Section section_of(const std::string& path, const std::string& name) {
  Section section;
  if (path.empty() || !file_exists(path)) return section;
  const std::string text = small_file(path);
  bool inside = false;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    if (line.empty() || line[0] == '#' || line[0] == ';' || line[0] == ' ' || line[0] == '\t') continue;
    if (line[0] == '[') {
      inside = credentials_trimmed(line.substr(1, line.find(']') - 1)) == name;
      continue;
    }
    const size_t equals = line.find('=');
    if (inside && equals != std::string_view::npos)
      section[credentials_trimmed(line.substr(0, equals))] = credentials_trimmed(line.substr(equals + 1));
  }
  return section;
}

std::string home_file(const char* given, const char* usual) {
  if (std::string path = credentials_variable(given); !path.empty()) return path;
  const std::string home = credentials_variable("HOME");
  return home.empty() ? "" : home + usual;
}
std::string credentials_file() { return home_file("AWS_SHARED_CREDENTIALS_FILE", "/.aws/credentials"); }
std::string config_file() { return home_file("AWS_CONFIG_FILE", "/.aws/config"); }

std::string profile_name() {
  const std::string name = first_of({"AWS_PROFILE", "AWS_DEFAULT_PROFILE"});
  return name.empty() ? "default" : name;
}

// The profile as both files have it; the credentials file counts more.
Section profile() {
  const std::string name = profile_name();
  Section all = section_of(config_file(), name == "default" ? name : "profile " + name);
  for (auto& [key, value] : section_of(credentials_file(), name)) all[key] = value;
  return all;
}

// 2026-11-27T04:00:00Z; 0 when it is none.
int64_t time_of(const std::string& text) {
  std::tm utc = {};
  if (strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &utc) == nullptr) return 0;
  return timegm(&utc);
}

// A document of a server that is near: soon there or not at all.
bool fetch_credentials(Transfer& transfer, const std::string& where, int64_t stall_ms, int tries) {
  transfer.stall_ms = stall_ms, transfer.tries = tries;
  perform(transfer, where);
  return transfer.status == 200 && transfer.problem.empty();
}

[[noreturn]] void refuse_credentials(const std::string& where, const std::string& what, const std::string& got, const std::string& hint) {
  throw Error(ErrorKind::authentication, {.where = where, .what = what, .got = got, .hint = hint});
}

}  // namespace

bool xml_text(std::string_view xml, std::string_view name, size_t& at, std::string& text) {
  const std::string open = "<" + std::string(name) + ">", close = "</" + std::string(name) + ">";
  const size_t begin = xml.find(open, at);
  const size_t end = begin == std::string_view::npos ? begin : xml.find(close, begin + open.size());
  if (end == std::string_view::npos) return false;
  at = end + close.size();
  text.clear();
  static constexpr std::pair<std::string_view, char> kEntities[] = {
      {"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}};
  for (size_t i = begin + open.size(); i < end; ++i) {
    const auto* entity = std::find_if(std::begin(kEntities), std::end(kEntities),
                                      [&](const auto& each) { return xml.substr(i, each.first.size()) == each.first; });
    text += entity == std::end(kEntities) ? xml[i] : entity->second;
    if (entity != std::end(kEntities)) i += entity->first.size() - 1;
  }
  return true;
}

std::string xml_text(std::string_view xml, std::string_view name) {
  size_t at = 0;
  std::string text;
  xml_text(xml, name, at, text);
  return text;
}

AwsSettings aws_settings() {
  Section of_profile = profile();
  AwsSettings settings{.profile = profile_name(),
                       .region = first_of({"AWS_REGION", "AWS_DEFAULT_REGION"}),
                       .endpoint = first_of({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"})};
  if (settings.region.empty()) settings.region = of_profile["region"];
  if (settings.region.empty()) settings.region = "us-east-1";
  if (settings.endpoint.empty()) settings.endpoint = of_profile["endpoint_url"];
  while (settings.endpoint.ends_with('/')) settings.endpoint.pop_back();
  const std::string no_sign = credentials_variable("AWS_NO_SIGN_REQUEST");
  settings.unsigned_requests = !no_sign.empty() && no_sign != "0" && no_sign != "false" && no_sign != "NO";
  return settings;
}

AwsKeys AwsCredentials::keys() {
  const std::lock_guard lock(mutex_);
  if (keys_.id.empty() || (expires_ > 0 && std::time(nullptr) > expires_ - kRenewBefore_s)) load();
  return keys_;
}

bool AwsCredentials::renew() {
  const std::lock_guard lock(mutex_);
  if (!renewable_) return false;
  load();
  return true;
}

std::string AwsCredentials::source() {
  const std::lock_guard lock(mutex_);
  return source_;
}

void AwsCredentials::load() {
  keys_ = {}, expires_ = 0, renewable_ = false;
  if (from_environment() || from_web_identity() || from_profile() || from_container() || from_instance()) return;
  refuse_credentials(
      "s3://", "there are no credentials", "",
      "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile in ~/.aws/credentials (AWS_PROFILE), or give the machine a role; "
      "AWS_NO_SIGN_REQUEST=1 reads public buckets");
}

bool AwsCredentials::from_environment() {
  keys_ = {credentials_variable("AWS_ACCESS_KEY_ID"), credentials_variable("AWS_SECRET_ACCESS_KEY"),
           credentials_variable("AWS_SESSION_TOKEN")};
  source_ = "the environment (AWS_ACCESS_KEY_ID)";
  if (!keys_.id.empty() && keys_.secret.empty())
    refuse_credentials("AWS_SECRET_ACCESS_KEY", "is not set, and AWS_ACCESS_KEY_ID is", "", "set both or neither");
  return !keys_.id.empty();
}

bool AwsCredentials::from_profile() {
  Section section = profile();
  keys_ = {section["aws_access_key_id"], section["aws_secret_access_key"], section["aws_session_token"]};
  source_ = "the profile '" + profile_name() + "' (" + credentials_file() + ")";
  renewable_ = !keys_.token.empty();  // another program may have written new ones
  if (keys_.id.empty() && !first_of({"AWS_PROFILE", "AWS_DEFAULT_PROFILE"}).empty())
    refuse_credentials(
        "AWS_PROFILE=" + profile_name(), "there are no keys of this profile", credentials_file() + " and " + config_file(),
        "`aws configure --profile " + profile_name() + "` writes them; sso and assumed roles: `aws configure export-credentials`");
  return !keys_.id.empty() && !keys_.secret.empty();
}

// A pod's service account (EKS), a CI job's identity.
bool AwsCredentials::from_web_identity() {
  const std::string file = credentials_variable("AWS_WEB_IDENTITY_TOKEN_FILE"), role = credentials_variable("AWS_ROLE_ARN");
  if (file.empty() || role.empty()) return false;
  source_ = "the role " + role + " (AWS_WEB_IDENTITY_TOKEN_FILE)", renewable_ = true;
  std::string endpoint = first_of({"AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL"}), session = credentials_variable("AWS_ROLE_SESSION_NAME");
  if (endpoint.empty()) endpoint = "https://sts." + aws_settings().region + ".amazonaws.com";
  if (session.empty()) session = "perigee";
  const std::string form = "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=" + percent_encoded(role) +
                           "&RoleSessionName=" + percent_encoded(session) +
                           "&WebIdentityToken=" + percent_encoded(credentials_trimmed(small_file(file)));
  Transfer transfer;
  transfer.method = "POST", transfer.url = endpoint + "/", transfer.has_body = true, transfer.body = {as_bytes(form)};
  transfer.headers = {"Content-Type: application/x-www-form-urlencoded", "Expect:"};
  const bool good = fetch_credentials(transfer, endpoint, 10000, 3);
  const std::string_view xml = as_text(transfer.content);
  keys_ = {xml_text(xml, "AccessKeyId"), xml_text(xml, "SecretAccessKey"), xml_text(xml, "SessionToken")};
  if (!good || keys_.id.empty())
    refuse_credentials(endpoint, "gives no credentials for the web identity",
                       transfer.problem.empty() ? xml_text(xml, "Message") : transfer.problem,
                       "check AWS_ROLE_ARN, the token in AWS_WEB_IDENTITY_TOKEN_FILE, and the role's trust policy");
  expires_ = time_of(xml_text(xml, "Expiration"));
  return true;
}

bool AwsCredentials::from_container() {
  std::string url = credentials_variable("AWS_CONTAINER_CREDENTIALS_FULL_URI");
  const std::string relative = credentials_variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
                    file = credentials_variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
  if (!relative.empty()) url = "http://169.254.170.2" + relative;
  if (url.empty()) return false;
  source_ = "the container's role (" + url + ")", renewable_ = true;
  std::string token = credentials_variable("AWS_CONTAINER_AUTHORIZATION_TOKEN");
  if (!file.empty()) token = credentials_trimmed(small_file(file));
  Transfer transfer;
  transfer.url = url;
  if (!token.empty()) transfer.headers = {"Authorization: " + token};
  if (!fetch_credentials(transfer, url, 3000, 3))
    refuse_credentials(url, "gives no credentials for this container",
                       transfer.problem.empty() ? "HTTP status " + std::to_string(transfer.status) : transfer.problem,
                       "give the task or pod a role");
  read_json(std::string(as_text(transfer.content)), url);
  return true;
}

bool AwsCredentials::from_instance() {
  if (std::string off = credentials_variable("AWS_EC2_METADATA_DISABLED"); off == "true" || off == "True" || off == "1") return false;
  InstanceMetadata metadata;
  const std::string place = "iam/security-credentials/", roles = metadata.get(place), name = roles.substr(0, roles.find('\n'));
  if (name.empty()) return false;  // the instance has no role
  source_ = "the instance's role '" + name + "'", renewable_ = true;
  const std::string keys = metadata.get(place + percent_encoded(name));
  if (keys.empty()) return false;
  read_json(keys, metadata.endpoint());
  return true;
}

void AwsCredentials::read_json(const std::string& text, const std::string& where) {
  const Json json = Json::parse(text, where);
  const auto member = [&](const char* name) {
    const Json* value = json.find(name);
    return value != nullptr && value->is_string() ? value->as_string() : "";
  };
  keys_ = {member("AccessKeyId"), member("SecretAccessKey"), member("Token")};
  expires_ = time_of(member("Expiration"));
  if (keys_.id.empty() || keys_.secret.empty())
    refuse_credentials(where, "gives no credentials", member("Message"), "give the machine a role");
}

}  // namespace perigee
