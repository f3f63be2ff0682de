#include "src/run/run_server.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "src/core/warning.h"

namespace perigee {
namespace {

constexpr int kServerGlanceMs = 50;

}  // namespace

std::unique_ptr<RunServer> RunServer::open(WatchedRun& run, const std::string& folder) {
  if (folder.empty()) return nullptr;
  SocketHandle socket = listen_in(folder);
  if (!socket) {
    warn(folder + ": no socket can be opened there (" + std::strerror(errno) + "); `perigee attach` cannot steer this run");
    return nullptr;
  }
  return std::make_unique<RunServer>(run, folder, std::move(socket));
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
      if (each.over) each.thread.join();
      return each.over.load();
    });
    pollfd waiting{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, kServerGlanceMs) <= 0) continue;
    SocketHandle accepted(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!accepted || connections_.size() >= kMostConnections) continue;
    Connection& connection = connections_.emplace_back();
    connection.thread = std::thread([this, &connection, lines = LineConnection(std::move(accepted))]() mutable {
      answer_all(lines);
      connection.over = true;
    });
  }
  for (Connection& each : connections_) each.thread.join();
}

void RunServer::answer_all(LineConnection& connection) {
  while (const std::optional<std::string> line = connection.receive(&closing_)) {
    Json answered = Json::object();
    try {
      answered.set("answer", answer(Json::parse(*line, "request")));
    } catch (const Error& error) {
      answered.set("error", error_json(error));
    } catch (const std::exception& error) {
      answered.set("error", error_json(Error(ErrorKind::resources, {.where = "run", .what = error.what()})));
    }
    if (!connection.send(answered.dump())) return;
  }
}

Json RunServer::answer(const Json& request) {
  if (!request.is_object() || request.as_object().size() != 1)
    throw Error(ErrorKind::usage, {.where = "request", .what = "is not one", .expected = "an object of one member"});
  const auto& [name, value] = *request.as_object().begin();
  if (name == "ask" && value == Json("progress")) return run_.progress_report(&closing_);
  if (name == "ask" && value == Json("options")) return run_.options_report(&closing_);
  if (name == "steer" && value.is_object() && value.as_object().size() == 1) return run_.steer(value, &closing_);
  if (name == "evaluate" && value.is_string()) return run_.evaluate(value.as_string(), &closing_);
  if (name == "save" && value.is_string()) {
    run_.save(value.as_string(), &closing_);
    return Json::object();
  }
  throw Error(ErrorKind::usage, {.where = "request", .what = "is unknown", .got = "'" + name + "'"});
}

}  // namespace perigee
