// The parts of src/net, each alone: addresses, deadlines, admission, the loop, random numbers.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "src/core/clock.h"
#include "src/core/error.h"
#include "src/net/address.h"
#include "src/net/admission.h"
#include "src/net/deadlines.h"
#include "src/net/loop.h"
#include "tests/net/run_until.h"

namespace perigee {
namespace {

template <class F>
std::string error_of(F&& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Address, WhatPeopleWrite) {
  EXPECT_EQ(parse_host_port("host1:7700"), (HostPort{"host1", 7700}));
  EXPECT_EQ(parse_host_port("10.0.0.1:0"), (HostPort{"10.0.0.1", 0}));
  EXPECT_EQ(parse_host_port("[::1]:7700"), (HostPort{"::1", 7700}));
  EXPECT_EQ(parse_host_port(":7700"), (HostPort{"", 7700}));
  EXPECT_EQ(parse_host_port("7700"), (HostPort{"", 7700}));
  EXPECT_EQ(parse_host_port("[fe80::1]:65535").text(), "[fe80::1]:65535");
  for (const char* wrong :
       {"", "host", "host:", "host:65536", "host:-1", "host:1x", "::1:7700", "[::1]", "[::1", "[x]:1", "a b:1", "user@host:1", "host: 1"})
    EXPECT_THROW(parse_host_port(wrong), Error) << wrong;
  EXPECT_NE(error_of([] { parse_host_port("::1:7700", "--listen"); }).find("[::1]:7700"), std::string::npos);
  EXPECT_EQ(error_of([] { parse_host_port("[x]:1", "--listen"); }), "--listen: not an IPv6 address; got 'x', expected such as [::1]:7700");
  EXPECT_EQ(error_of([] { parse_host_port("a b:1", "--listen"); }),
            "--listen: not a host name; got 'a b', expected host:port, [IPv6]:port or :port");
  EXPECT_NE(error_of([] { resolve({"nowhere.invalid", 1}); }).find("no machine of this name is known"), std::string::npos);
}

TEST(Address, Networks) {
  const auto inside = [](const char* cidr, const char* host) {
    sockaddr_storage address;
    EXPECT_TRUE(numeric_address({host, 1}, &address));
    return parse_cidr(cidr).contains(reinterpret_cast<const sockaddr*>(&address));
  };
  EXPECT_TRUE(inside("10.0.0.0/16", "10.0.255.1"));
  EXPECT_FALSE(inside("10.0.0.0/16", "10.1.0.1"));
  EXPECT_TRUE(inside("10.0.0.0/9", "10.127.0.1"));
  EXPECT_FALSE(inside("10.0.0.0/9", "10.128.0.1"));
  EXPECT_TRUE(inside("0.0.0.0/0", "1.2.3.4"));
  EXPECT_FALSE(inside("0.0.0.0/0", "::1"));
  EXPECT_TRUE(inside("fd00::/8", "fd12::1"));
  EXPECT_FALSE(inside("fd00::/8", "fe12::1"));
  EXPECT_TRUE(inside("127.0.0.1", "127.0.0.1"));
  for (const char* wrong : {"", "10.0.0.0/33", "10.0.0/8", "::/129", "eth0", "10.0.0.0/", "10.0.0.0/-1"})
    EXPECT_THROW(parse_cidr(wrong), Error) << wrong;
}

TEST(Address, WhatOthersAreTold) {
  EXPECT_EQ(local_address_in("127.0.0.0/8"), "127.0.0.1");
  EXPECT_NE(error_of([] { local_address_in("203.0.113.0/24"); }).find("127.0.0.1"), std::string::npos);
  EXPECT_EQ(advertised_address("127.0.0.1:5", "", ""), "127.0.0.1:5");
  EXPECT_EQ(advertised_address("0.0.0.0:5", "node1:99", ""), "node1:99");
  EXPECT_EQ(advertised_address("0.0.0.0:5", "node1", ""), "node1:5");
  EXPECT_EQ(advertised_address("0.0.0.0:5", "node1:0", ""), "node1:5");
  EXPECT_EQ(advertised_address("0.0.0.0:5", "", "127.0.0.0/8"), "127.0.0.1:5");
  EXPECT_EQ(error_of([] { advertised_address("0.0.0.0:5", ":7", ""); }),
            "--advertise: others need a host to connect to; got ':7', expected HOST:PORT");
  EXPECT_FALSE(advertised_address("[::]:5", "", "").starts_with("[::]"));
}

TEST(Deadlines, ComeSoonestFirstWhateverWasChanged) {
  Deadlines deadlines;
  std::map<uint64_t, uint64_t> expected;
  SeededRng rng(3);
  uint64_t id = 0;
  for (int step = 0; step < 20000; ++step) {
    const uint64_t which = rng.next() % 300, when = rng.next() % 1000;
    switch (rng.next() % 4) {
      case 0:
      case 1: deadlines.set(which, when), expected[which] = when; break;
      case 2: deadlines.erase(which), expected.erase(which); break;
      default: {
        auto soonest = expected.end();
        for (auto it = expected.begin(); it != expected.end(); ++it)
          if (soonest == expected.end() || it->second < soonest->second) soonest = it;  // equal: the smaller id
        const bool due = soonest != expected.end() && soonest->second <= when;
        ASSERT_EQ(deadlines.take_due(when, &id), due);
        if (!due) break;
        ASSERT_EQ(id, soonest->first);
        expected.erase(soonest);
      }
    }
    ASSERT_EQ(deadlines.size(), expected.size());
  }
}

TEST(Admission, WhoFailsTooOftenIsShutOutForAWhile) {
  sockaddr_storage one, other, mapped;
  ASSERT_TRUE(numeric_address({"10.0.0.1", 1}, &one));
  ASSERT_TRUE(numeric_address({"10.0.0.2", 1}, &other));
  ASSERT_TRUE(numeric_address({"::ffff:10.0.0.1", 9}, &mapped));
  const auto* a = reinterpret_cast<const sockaddr*>(&one);
  Admission admission(3, 1.0);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(admission.shut_out(a, 0));
    admission.failed(a, 0);
  }
  EXPECT_TRUE(admission.shut_out(a, 0));
  EXPECT_TRUE(admission.shut_out(reinterpret_cast<const sockaddr*>(&mapped), 0));
  EXPECT_FALSE(admission.shut_out(reinterpret_cast<const sockaddr*>(&other), 0));
  EXPECT_TRUE(admission.shut_out(a, 0));
  EXPECT_FALSE(admission.shut_out(a, test::kSecond));
  admission.failed(a, test::kSecond);
  EXPECT_TRUE(admission.shut_out(a, test::kSecond));
  for (int i = 0; i < 100; ++i) admission.failed(a, 2 * test::kSecond);
  EXPECT_TRUE(admission.shut_out(a, 2 * test::kSecond));
  EXPECT_FALSE(admission.shut_out(a, 6 * test::kSecond));  // however long it went on, it is forgotten soon
}

TEST(Admission, StrangersAtAPeersOwnAddressDoNotKeepItOut) {
  sockaddr_storage one, far;
  ASSERT_TRUE(numeric_address({"10.0.0.1", 1}, &one));
  const auto* a = reinterpret_cast<const sockaddr*>(&one);
  Admission admission(3, 0);
  for (int i = 0; i < 100; ++i) admission.failed(a, 0);
  EXPECT_TRUE(admission.shut_out(a, 0));
  admission.succeeded(a, test::kSecond);
  for (int i = 0; i < 100; ++i) admission.failed(a, 2 * test::kSecond);
  EXPECT_FALSE(admission.shut_out(a, 2 * test::kSecond));
  EXPECT_FALSE(admission.shut_out(a, Admission::kTrustedNs));
  EXPECT_TRUE(admission.shut_out(a, test::kSecond + Admission::kTrustedNs)) << "the trust of a peer that never came back";
  // Trust is bounded, and who came last is trusted.
  for (size_t i = 0; i <= Admission::kMaxAddresses; ++i) {
    ASSERT_TRUE(numeric_address({"10.1." + std::to_string(i / 256) + "." + std::to_string(i % 256), 1}, &far));
    admission.succeeded(reinterpret_cast<const sockaddr*>(&far), 3 * test::kSecond + i);
  }
  EXPECT_TRUE(admission.shut_out(a, 4 * test::kSecond));
  for (int i = 0; i < 3; ++i) admission.failed(reinterpret_cast<const sockaddr*>(&far), 4 * test::kSecond);
  EXPECT_FALSE(admission.shut_out(reinterpret_cast<const sockaddr*>(&far), 4 * test::kSecond));
}

TEST(UvLoop, WorkFromOtherThreadsIsDoneInOrderAndBounded) {
  UvLoop loop;
  std::vector<int> done;
  std::thread thread([&] {
    for (int i = 0; i < 1000; ++i)
      while (!loop.post([&done, i] { done.push_back(i); })) std::this_thread::yield();
    while (!loop.post([&loop] { loop.stop(); })) std::this_thread::yield();
  });
  loop.run();
  thread.join();
  ASSERT_EQ(done.size(), 1000u);
  EXPECT_TRUE(std::ranges::is_sorted(done));
  size_t taken = 0;
  while (loop.post([] {})) ++taken;
  EXPECT_EQ(taken, UvLoop::kMaxPosted);
}

TEST(UvLoop, AnErrorInACallbackComesOutOfRun) {
  UvLoop loop;
  int after = 0;
  loop.post([] { throw Error(ErrorKind::cluster, {.what = "first"}); });
  loop.post([&] { ++after; });
  EXPECT_EQ(error_of([&] { loop.run(); }), "first");
  EXPECT_EQ(after, 0);
  loop.post([&] { loop.stop(); });
  loop.run();  // goes on where it was
  EXPECT_EQ(after, 1);
}

TEST(UvLoop, APeerThatIsGoneDoesNotEndTheProcess) {
  signal(SIGPIPE, SIG_DFL);
  UvLoop loop;
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  EXPECT_EQ(write(ends[1], "x", 1), -1);
  EXPECT_EQ(errno, EPIPE);
  close(ends[1]);
}

TEST(UvLoop, StopBeforeRun) {
  UvLoop loop;
  loop.stop();
  loop.run();
}

TEST(UvLoop, SignalsAreHandledAndGivenBack) {
  UvLoop loop;
  int seen = 0;
  loop.on_signal(SIGUSR1, [&](int signal) { seen += signal; });
  raise(SIGUSR1);
  EXPECT_TRUE(test::run_until(loop, [&] { return seen != 0; }));
  EXPECT_EQ(seen, SIGUSR1);
  loop.on_signal(SIGUSR1, [&](int) {
    seen = -1;
    loop.on_signal(SIGUSR1, {});  // takes itself away
  });
  raise(SIGUSR1);
  EXPECT_TRUE(test::run_until(loop, [&] { return seen == -1; }));
  struct sigaction action {};
  sigaction(SIGUSR1, nullptr, &action);
  EXPECT_EQ(action.sa_handler, SIG_DFL);
}

TEST(Rng, SystemNumbersDifferAndSeededOnesRepeat) {
  SystemRng system;
  std::set<uint64_t> seen;
  for (int i = 0; i < 100; ++i) seen.insert(system.next());
  EXPECT_EQ(seen.size(), 100u);
  SeededRng a(5), b(5), c(6);
  EXPECT_EQ(a.next(), b.next());
  EXPECT_NE(a.next(), c.next());
}

}  // namespace
}  // namespace perigee
