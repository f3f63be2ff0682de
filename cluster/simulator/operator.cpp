#include "cluster/simulator/operator.h"

#include <utility>

#include "cluster/protocol/message.h"

namespace perigee::sim {
namespace {

constexpr uint64_t kAskNs = 400'000'000;  // between two questions, which also keep the connection

}  // namespace

Operator::Operator(Network& network, SeededRng& rng, std::function<void(const std::string&)> kicked)
    : network_(network), rng_(rng), kicked_(std::move(kicked)), process_(network.add_process(1001, "operator:1")) {
  network_.boot(process_, this);
  connect();
}

void Operator::connect() {
  if (over_) return;
  connected_ = false;
  peer_ = network_.transport(process_).connect("coordinator:1", network_.now_ns() + 1'000'000'000);
}

void Operator::command(Json command) {
  commands_.push_back(std::move(command));
  if (commands_.size() == 1) ask();
}

void Operator::kick_one() { kick_ = true; }

void Operator::ask() {
  if (!connected_) return;
  Transport& transport = network_.transport(process_);
  if (commands_.empty()) transport.send(peer_, encode(Status{}, FrameHeader{}));
  else transport.send(peer_, encode(Steer{.request = static_cast<uint64_t>(request_), .json = commands_.front().dump()}, FrameHeader{}));
}

void Operator::on_connected(PeerId, const std::string&) {
  connected_ = true;
  on_timer(0);
}

void Operator::on_timer(uint64_t) {
  if (over_) return;
  ask();
  network_.transport(process_).start_timer(1, network_.clock(process_).now_ns() + kAskNs);
}

void Operator::on_frame(PeerId, std::span<const std::byte> frame) {
  FrameHeader header;
  Report report;
  if (!read_header(frame, &header) || header.type != MessageType::report || !decode(frame.subspan(kHeaderBytes), &report)) return;
  const Json status = Json::parse(report.json, "report");
  if (const Json* answers = status.find("answers"); answers && answers->as_int() == request_ && !commands_.empty()) {
    commands_.erase(commands_.begin());
    ++request_;
    if (!commands_.empty()) return ask();
  }
  const Json::Array& workers = status.find("workers")->as_array();
  if (!kick_ || !commands_.empty() || workers.empty()) return;
  const Json& one = workers[static_cast<size_t>(rng_.integer(0, static_cast<int64_t>(workers.size()) - 1))];
  kick_ = false;
  kicked_(one.find("name")->as_string());
  command(Json(Json::Object{{"kick", *one.find("id")}}));
}

void Operator::on_lost(PeerId, PeerLoss) {
  connected_ = false;
  if (!over_) network_.post(process_, kAskNs, [this] { connect(); });
}

}  // namespace perigee::sim
