#include "src/run/run_server.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <system_error>

#include "src/core/warning.h"

namespace perigee {
namespace {

constexpr auto kServerGlance = std::chrono::milliseconds(50);

int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

std::unique_ptr<RunServer> RunServer::open(WatchedRun& run, const std::string& folder) {
  if (folder.empty()) return nullptr;
  const auto refuse = [&](const char* why) {
    warn(folder + ": no socket can be opened there (" + why + "); `perigee attach` cannot steer this run");
    return nullptr;
  };
  SocketHandle socket = listen_in(folder);
  if (!socket) return refuse(std::strerror(errno));
  try {
    return std::make_unique<RunServer>(run, folder, std::move(socket));
  } catch (const std::system_error& error) {  // there is no thread for it
    return refuse(error.what());
  }
}

RunServer::RunServer(WatchedRun& run, std::string folder, SocketHandle socket)
    : run_(run), folder_(std::move(folder)), socket_(std::move(socket)), thread_([this] { accept_all(); }) {}

RunServer::~RunServer() {
  closing_ = true;
  thread_.join();
  ::unlink((folder_ + "/" + kRunSocket).c_str());
}

void RunServer::accept_all() {
  while (!closing_) {
    std::erase_if(connections_, [](Connection& each) {
      const bool over = each.over;  // read once: it may change at any moment
      if (over) each.thread.join();
      return over;
    });
    pollfd waiting{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, static_cast<int>(kServerGlance.count())) <= 0) continue;
    SocketHandle accepted = accept_from(socket_);
    // A process whose descriptors are all taken would ask again at once.
    if (!accepted) std::this_thread::sleep_for(kServerGlance);
    else if (make_room()) begin(std::move(accepted));
  }
  for (Connection& each : connections_) each.leave = true;
  for (Connection& each : connections_) each.thread.join();
}

// False: all places are taken by connections that ask.
bool RunServer::make_room() {
  const auto stays = [](const Connection& each) { return !each.leave; };
  if (static_cast<size_t>(std::ranges::count_if(connections_, stays)) < kMostConnections) return true;
  Connection* silent = nullptr;
  for (Connection& each : connections_)
    if (stays(each) && (!silent || each.silent_since_ms < silent->silent_since_ms)) silent = &each;
  if (silent->silent_since_ms > now_ms() - kSilent.count()) return false;
  silent->leave = true;
  return true;
}

// No memory and no thread mean no connection, and nothing worse.
void RunServer::begin(SocketHandle accepted) {
  try {
    std::list<Connection> added(1);
    Connection& connection = added.front();
    connection.silent_since_ms = now_ms();
    connection.thread = std::thread([this, &connection, lines = LineConnection(std::move(accepted))]() mutable {
      try {
        answer_all(connection, lines);
      } catch (const std::exception&) {}
      lines.close();
      connection.over = true;
    });
    connections_.splice(connections_.end(), added);
  } catch (const std::exception&) {}
}

void RunServer::answer_all(Connection& connection, LineConnection& lines) {
  while (const std::optional<std::string> line = lines.receive(&connection.leave)) {
    connection.silent_since_ms = INT64_MAX;
    Json answered = Json::object();
    try {
      answered.set("answer", answer(Json::parse(*line, "request"), &connection.leave));
    } catch (const Error& error) {
      if (connection.leave) return;  // it was interrupted by that, which its client does not take for an answer
      answered.set("error", error_json(error));
    } catch (const std::exception& error) {
      answered.set("error", error_json(Error(ErrorKind::resources, {.where = "run", .what = error.what()})));
    }
    if (!lines.send(answered.dump(), &connection.leave)) return;
    connection.silent_since_ms = now_ms();
  }
}

Json RunServer::answer(const Json& request, Run::Cancel cancel) {
  if (!request.is_object() || request.as_object().size() != 1)
    throw Error(ErrorKind::usage, {.where = "request", .what = "is not one", .expected = "an object of one member"});
  const auto& [name, value] = *request.as_object().begin();
  if (name == "ask" && value == Json("progress")) return run_.progress_report(cancel);
  if (name == "ask" && value == Json("options")) return run_.options_report(cancel);
  if (name == "steer" && value.is_object() && value.as_object().size() == 1) return run_.steer(value, cancel);
  if (name == "evaluate" && value.is_string()) return run_.evaluate(value.as_string(), cancel);
  if (name == "save" && value.is_string()) {
    run_.save(value.as_string(), cancel);
    return Json::object();
  }
  throw Error(ErrorKind::usage, {.where = "request", .what = "is unknown", .got = "'" + name + "'"});
}

}  // namespace perigee
