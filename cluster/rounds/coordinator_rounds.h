// The coordinator's side of a protocol of rounds. Coordinator knows who takes part, what is committed and which images there are; how a
// round begins and ends is the business of the protocol that the policy chose: synchronous steps (steps/), local-SGD rounds (local/), a
// parameter server (server/).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cluster/protocol/message.h"
#include "cluster/protocol/route.h"

namespace perigee {

struct CoordinatorCore;
struct CoordinatedWorker;

class CoordinatorRounds {
 public:
  using Node = CoordinatedWorker;  // perigee::Node is one of the graph's
  explicit CoordinatorRounds(CoordinatorCore& core) : c_(core) {}
  virtual ~CoordinatorRounds() = default;

  // ---- membership ----
  virtual std::string why_not(const Join& join) const;  // it may not join; empty: it may
  virtual bool lacks_server() const { return false; }
  virtual bool holds_results(const Node&) const { return true; }  // others may take the result from it
  virtual bool calm() const = 0;                                  // of a running generation: to form now loses no work
  virtual void on_propose() {}                                    // the open round is over
  virtual void on_all_formed() {}                                 // each member has said what it holds
  virtual bool may_keep_work(const Node&) const { return true; }  // what it has begun may stay its own
  virtual void admit(Node&) {}                                    // a member that holds no results
  virtual bool restores() const { return false; }                 // what is committed can be made again, by who is here
  // As much of what is committed and that no member holds as can be made again from `round` on.
  virtual void extend(int64_t* /*round*/, uint64_t* /*hash*/) {}
  virtual bool heals(Node&) { return false; }  // true: it leads that node to the result by itself
  virtual bool on_healed(Node&, const CaughtUp&) { return false; }
  virtual int64_t image_round() const;              // of the image that who heals may fetch from here
  virtual void on_imaged(uint64_t /*since_ns*/) {}  // an image that was asked for by keep_image() is there; 0: it could not be had
  virtual void on_losing(const Node&) {}            // a member, before its work goes back

  // ---- rounds ----
  virtual bool synchronous() const { return false; }
  virtual void on_start_epoch(StartEpoch*) {}  // adds to it what this protocol says with it
  virtual void open_round() = 0;
  virtual Received on_frame(Node& node, const FrameHeader& header, std::span<const std::byte> payload) = 0;
  virtual void advance() {}  // there may be work to be leased, or a round to begin
  virtual void top_up_all() {}
  virtual bool begun() const { return false; }  // of rounds that are announced: this one is
  virtual void on_grace() {}                    // the time after a quorum is over
  virtual void replay_early();                  // what was said about this round before it was open
  virtual void check(uint64_t /*now*/) {}
  virtual void forgive(const std::function<void(uint64_t&)>& /*later*/) {}  // this process stood still: moments since which it waits

 protected:
  enum class Fence { none };  // Coordinator has looked at the frame's generation
  virtual void on_ready(Node& node, const FrameHeader& header, Ready ready) = 0;
  bool start_allowed() const;
  // Examples that a worker could not use are given to others, or up when enough have tried. `exact`: all of the ranges are at fault, and they
  // leave the worker's lease; else some of what they have in common. True: some were given up.
  bool try_elsewhere(Node& node, const std::vector<Range>& ranges, const char* as, const std::string& what, bool exact);
  bool none_usable(const std::string& what);  // true: the run has ended
  void forget_failures(const std::vector<Range>& ranges);
  bool diverged(const Figures& figures, int64_t examples, int workers);  // true: the run has ended

  CoordinatorCore& c_;
};

// Rounds that all members make together: the members' results are compared, and the round is committed when they are one.
class ExchangedCommits : public CoordinatorRounds {
 public:
  using CoordinatorRounds::CoordinatorRounds;

  void on_propose() override;
  void open_round() override;
  void check(uint64_t now) override;
  void forgive(const std::function<void(uint64_t&)>& later) override { later(first_done_ns_); }

 protected:
  void on_done(Node& node, const FrameHeader& header, Done done);
  virtual bool expects_done() const { return true; }
  virtual std::vector<Share> shares() const = 0;  // of the open round, which is being committed
  virtual bool workers_wait() const = 0;          // after it, for Evaluate
  virtual void on_closing(const std::vector<Share>&) {}
  virtual bool is_booked() const { return false; }  // the ledger has the round already
  virtual bool ends() const { return false; }       // another protocol follows
  virtual bool in_exchange() const = 0;
  virtual std::vector<WorkerId> late_to_begin(uint64_t /*now*/) const { return {}; }
  WorkerId most_to_blame(const std::vector<WorkerId>& late, uint64_t now) const;
  bool passed(uint64_t since, uint64_t now) const;  // the policy's deadline

  std::vector<WorkerId> participants_;  // who must say Done
  size_t done_count_ = 0;
  uint64_t first_done_ns_ = 0;

 private:
  void close_round();
  void after_commit(bool wait);
  std::vector<Share> book(Figures* figures, int64_t* examples);
};

// The protocols of one run. Which of them makes the rounds follows from the policy and its progress.
class CoordinatorProtocols {
 public:
  explicit CoordinatorProtocols(CoordinatorCore& core);
  ~CoordinatorProtocols();
  CoordinatorRounds& first() const;  // before any StartEpoch
  CoordinatorRounds& at(double progress) const;

 private:
  enum Kind : size_t { kSteps, kLocal, kServer, kKinds };
  CoordinatorCore& core_;
  std::vector<std::unique_ptr<CoordinatorRounds>> all_;
};

}  // namespace perigee
