#include "src/io/store/etcd.h"

#include <algorithm>
#include <cstdlib>

#include "src/core/error.h"
#include "src/io/base64.h"
#include "src/io/store/transfer.h"
#include "src/io/store/url.h"

namespace perigee {
namespace {

constexpr size_t kMostEtcdMembers = 16, kMostKeys = 10'000, kMostValues = 200'000;
constexpr uint64_t kLargestAnswer = uint64_t{16} << 20;
constexpr int kUnauthenticated = 16;  // gRPC's codes
constexpr int kDenied = 7, kBadArgument = 3;

std::string etcd_variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// The gateway writes 64-bit numbers as strings.
int64_t etcd_number_of(const Json* value) {
  if (value == nullptr) return 0;
  if (value->is_int()) return value->as_int();
  return value->is_string() ? std::strtoll(value->as_string().c_str(), nullptr, 10) : 0;
}
std::string etcd_text_of(const Json* value) { return value != nullptr && value->is_string() ? value->as_string() : ""; }
const Json* etcd_member(const Json& json, const char* outer, const char* inner) {
  const Json* found = json.find(outer);
  return found != nullptr ? found->find(inner) : nullptr;
}

// The first key that does not begin with `prefix`.
std::string etcd_end_of(std::string prefix) {
  while (!prefix.empty() && static_cast<unsigned char>(prefix.back()) == 255) prefix.pop_back();
  if (!prefix.empty()) ++prefix.back();
  return prefix;
}

EtcdValue etcd_value_of(const Json& entry, const std::string& where) {
  return {.value = from_base64(etcd_text_of(entry.find("value")), where),
          .created = etcd_number_of(entry.find("create_revision")),
          .modified = etcd_number_of(entry.find("mod_revision"))};
}

[[noreturn]] void refuse_etcd(const std::string& text, const char* what) {
  throw Error(ErrorKind::usage,
              {.where = text, .what = what, .expected = "etcd://HOST[:PORT],HOST[:PORT],.../NAME", .hint = "the usual port is 2379"});
}

}  // namespace

bool is_etcd_address(std::string_view text) { return text.starts_with("etcd://") || text.starts_with("etcds://"); }

EtcdAddress parse_etcd_address(const std::string& text) {
  EtcdAddress address;
  const size_t begin = text.find("://") + 3, slash = std::min(text.find('/', begin), text.size());
  const std::string scheme = text.starts_with("etcds:") || !etcd_variable("PERIGEE_ETCD_CA").empty() ? "https://" : "http://";
  std::string hosts = text.substr(begin, slash - begin);
  if (const size_t at = hosts.rfind('@'); at != std::string::npos) {
    const size_t colon = std::min(hosts.find(':'), at);
    address.user = percent_decoded(hosts.substr(0, colon));
    if (colon < at) address.password = percent_decoded(hosts.substr(colon + 1, at - colon - 1));
    hosts.erase(0, at + 1);
  } else if (const std::string given = etcd_variable("PERIGEE_ETCD_USER"); !given.empty()) {
    const size_t colon = std::min(given.find(':'), given.size());
    address.user = given.substr(0, colon);
    if (colon < given.size()) address.password = given.substr(colon + 1);
  }
  address.text = text.substr(0, begin) + hosts + text.substr(slash);
  for (size_t from = 0; from <= hosts.size();) {
    const size_t end = std::min(hosts.find(',', from), hosts.size());
    // As of any address: it checks host and port.
    StoreUrl one = parse_store_url("http://" + hosts.substr(from, end - from) + "/");
    if (one.host.empty()) refuse_etcd(address.text, "names no host");
    if (one.port == 0) one.port = 2379;
    address.members.push_back(scheme + one.host_and_port());
    from = end + 1;
  }
  if (address.members.size() > kMostEtcdMembers) refuse_etcd(address.text, "names too many hosts");
  address.path = text.substr(slash);
  while (address.path.ends_with('/')) address.path.pop_back();
  if (address.path.empty()) refuse_etcd(address.text, "names no key");
  return address;
}

EtcdClient::EtcdClient(EtcdAddress address, int64_t deadline_ms)
    : address_(std::move(address)),
      deadline_ms_(deadline_ms),
      token_(etcd_variable("PERIGEE_ETCD_TOKEN")),
      ca_(etcd_variable("PERIGEE_ETCD_CA")),
      certificate_(etcd_variable("PERIGEE_ETCD_CERT")),
      key_(etcd_variable("PERIGEE_ETCD_KEY")) {}

Json EtcdClient::call(const std::string& path, const Json& body) {
  const std::string text = body.dump();
  std::string fault;
  bool logged_in = false;
  for (size_t tries = 0; tries < address_.members.size() + (logged_in ? 1 : 0); ++tries) {
    Transfer transfer;
    transfer.method = "POST", transfer.has_body = transfer.lasting = true, transfer.tries = 1;
    transfer.url = address_.members[member_ % address_.members.size()] + path;
    transfer.body = {as_bytes(text)};
    transfer.headers = {"Content-Type: application/json", "Expect:"};
    if (!token_.empty()) transfer.headers.push_back("Authorization: " + token_);
    transfer.stall_ms = transfer.total_ms = deadline_ms_;
    transfer.limit = kLargestAnswer;
    transfer.ca = ca_, transfer.certificate = certificate_, transfer.key = key_;
    perform(transfer, address_.text);
    Json answer;
    bool json = false;
    try {
      answer = Json::parse(as_text(transfer.content), "etcd", kMostValues);
      json = answer.is_object();
    } catch (const Error&) {
      // Told below: the member is of no use.
    }
    if (transfer.ok() && transfer.problem.empty() && json && answer.find("error") == nullptr) return answer;
    const std::string says = json ? etcd_text_of(answer.find("error")) : "";
    const auto code = json ? etcd_number_of(answer.find("code")) : 0;
    const bool about_user = says.find("auth") != std::string::npos || says.find("user name") != std::string::npos;
    const bool stale = code == kUnauthenticated || (code == kBadArgument && about_user);
    if (!address_.user.empty() && !logged_in && stale && path != "/v3/auth/authenticate") {
      logged_in = log_in();
      continue;
    }
    if (json && (code == kUnauthenticated || code == kDenied || code == kBadArgument))
      throw Error(stale || code == kDenied ? ErrorKind::authentication : ErrorKind::resources,
                  {.where = address_.text,
                   .what = "etcd refuses the request",
                   .got = says.substr(0, 200),
                   .hint = stale || code == kDenied ? "PERIGEE_ETCD_USER=name:password, with a role for these keys" : ""});
    fault = transfer.url + ": " +
            (!transfer.problem.empty() ? transfer.problem
             : !says.empty()           ? says.substr(0, 200)
             : transfer.ok()           ? "its answer is no JSON of etcd"
                                       : "HTTP status " + std::to_string(transfer.status));
    ++member_;
  }
  throw Error(ErrorKind::resources, {.where = address_.text,
                                     .what = "no member of etcd answers",
                                     .got = fault,
                                     .hint = "check the hosts and ports; `curl HOST:2379/version` must answer"});
}

bool EtcdClient::log_in() {
  token_.clear();
  const Json answer = call("/v3/auth/authenticate", Json(Json::Object{{"name", address_.user}, {"password", address_.password}}));
  token_ = etcd_text_of(answer.find("token"));
  return !token_.empty();
}

EtcdValue EtcdClient::get(const std::string& key) {
  const Json answer = call("/v3/kv/range", Json(Json::Object{{"key", base64(key)}}));
  const Json* found = answer.find("kvs");
  if (found == nullptr || !found->is_array() || found->as_array().empty()) return {};
  return etcd_value_of(found->as_array()[0], address_.text);
}

std::vector<std::pair<std::string, EtcdValue>> EtcdClient::list(const std::string& prefix) {
  const Json answer =
      call("/v3/kv/range",
           Json(Json::Object{{"key", base64(prefix)}, {"range_end", base64(etcd_end_of(prefix))}, {"limit", std::to_string(kMostKeys)}}));
  std::vector<std::pair<std::string, EtcdValue>> all;
  const Json* found = answer.find("kvs");
  if (found == nullptr || !found->is_array()) return all;
  for (const Json& entry : found->as_array())
    all.emplace_back(from_base64(etcd_text_of(entry.find("key")), address_.text), etcd_value_of(entry, address_.text));
  return all;
}

void EtcdClient::put(const std::string& key, const std::string& value) {
  call("/v3/kv/put", Json(Json::Object{{"key", base64(key)}, {"value", base64(value)}}));
}

int64_t EtcdClient::grant(int64_t seconds) {
  const Json answer = call("/v3/lease/grant", Json(Json::Object{{"TTL", std::to_string(seconds)}}));
  const int64_t lease = etcd_number_of(answer.find("ID"));
  if (lease == 0)
    throw Error(ErrorKind::resources, {.where = address_.text, .what = "etcd gives no lease", .hint = "is it etcd that answers there?"});
  return lease;
}

int64_t EtcdClient::keep_alive(int64_t lease) {
  const Json answer = call("/v3/lease/keepalive", Json(Json::Object{{"ID", std::to_string(lease)}}));
  return std::clamp<int64_t>(etcd_number_of(etcd_member(answer, "result", "TTL")), 0, 86'400);
}

void EtcdClient::revoke(int64_t lease) { call("/v3/lease/revoke", Json(Json::Object{{"ID", std::to_string(lease)}})); }

int64_t EtcdClient::transact(const std::vector<Condition>& conditions, const std::vector<Write>& writes) {
  Json compare = Json::array(), success = Json::array();
  for (const Condition& each : conditions)
    compare.push(Json(Json::Object{{"key", base64(each.key)},
                                   {"result", "EQUAL"},
                                   {"target", each.of_creation ? "CREATE" : "MOD"},
                                   {each.of_creation ? "create_revision" : "mod_revision", std::to_string(each.revision)}}));
  for (const Write& each : writes) {
    Json put(Json::Object{{"key", base64(each.key)}, {"value", base64(each.value)}});
    if (each.lease != 0) put.set("lease", std::to_string(each.lease));
    success.push(Json(Json::Object{{"requestPut", std::move(put)}}));
  }
  const Json answer = call("/v3/kv/txn", Json(Json::Object{{"compare", std::move(compare)}, {"success", std::move(success)}}));
  const Json* succeeded = answer.find("succeeded");
  if (succeeded == nullptr || !succeeded->is_bool() || !succeeded->as_bool()) return 0;
  return std::max<int64_t>(1, etcd_number_of(etcd_member(answer, "header", "revision")));
}

std::string text_in_etcd(const std::string& address) {
  EtcdClient etcd(parse_etcd_address(address), 3000);
  const std::string& key = etcd.address().path;
  EtcdValue found = etcd.get(key);
  if (found.created != 0) return std::move(found.value);
  throw Error(
      ErrorKind::usage,
      {.where = etcd.address().text, .what = "etcd has no such key", .got = key, .hint = "`etcdctl put " + key + " < job.json` writes it"});
}

}  // namespace perigee
