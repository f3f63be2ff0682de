// Addresses of etcd, and members that are not there. What a real one does: tests/cluster/engines/etcd_test.py.
#include "src/io/store/etcd.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <string_view>
#include <thread>

#include "src/core/error.h"

namespace perigee {
namespace {

TEST(Etcd, AnAddressNamesMembersAndAKey) {
  const EtcdAddress address = parse_etcd_address("etcd://me:s%40cret@one,two:99,[::1]:7/runs/lenet/");
  EXPECT_EQ(address.members, (std::vector<std::string>{"http://one:2379", "http://two:99", "http://[::1]:7"}));
  EXPECT_EQ(address.path, "/runs/lenet");
  EXPECT_EQ(address.user, "me");
  EXPECT_EQ(address.password, "s@cret");
  EXPECT_EQ(address.text, "etcd://one,two:99,[::1]:7/runs/lenet/") << "without the password";
  EXPECT_EQ(parse_etcd_address("etcds://one/x").members, std::vector<std::string>{"https://one:2379"});
}

TEST(Etcd, WhatIsNoAddressIsRefused) {
  std::string many = "etcd://h";
  for (int i = 0; i < 16; ++i) many += ",h";
  for (const auto& [text, says] :
       std::vector<std::pair<std::string, std::string>>{{"etcd://one", "names no key"},
                                                        {"etcd:///x", "names no host"},
                                                        {"etcd://one,,two/x", "names no host"},
                                                        {many + "/x", "names too many hosts"},
                                                        {"etcd://one:0/x", "port"},
                                                        {"etcd://one", "expected etcd://HOST[:PORT],HOST[:PORT],.../NAME"},
                                                        {"etcd://one:66000/x", "port"},
                                                        {"etcd://o\x01ne/x", "control characters"}}) {
    try {
      parse_etcd_address(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
    }
  }
}

TEST(Etcd, MembersThatAreGoneAreOneError) {
  EtcdClient etcd(parse_etcd_address("etcd://127.0.0.1:9,127.0.0.1:9/x"), 500);
  const auto begun = std::chrono::steady_clock::now();
  try {
    etcd.get("/x");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::resources);
    EXPECT_NE(std::string(error.what()).find("no member of etcd answers"), std::string::npos) << error.what();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(10));
}

// Another web server where etcd should be: its answers are JSON, and say nothing.
TEST(Etcd, AnAnswerWithoutALeaseIsRefused) {
  const int listening = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET, at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  ASSERT_EQ(::bind(listening, reinterpret_cast<sockaddr*>(&at), size), 0);
  ASSERT_EQ(::listen(listening, 1), 0);
  ASSERT_EQ(::getsockname(listening, reinterpret_cast<sockaddr*>(&at), &size), 0);
  std::thread server([listening] {
    const int client = ::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
    char asked[4096];
    static constexpr std::string_view kAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
    if (::read(client, asked, sizeof asked) > 0) {
      EXPECT_EQ(::write(client, kAnswer.data(), kAnswer.size()), static_cast<ssize_t>(kAnswer.size()));
    }
    ::close(client);
  });
  EtcdClient etcd(parse_etcd_address("etcd://127.0.0.1:" + std::to_string(ntohs(at.sin_port)) + "/x"), 20'000);
  try {
    etcd.grant(5);
    ADD_FAILURE() << "there is no lease";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("etcd gives no lease; is it etcd that answers there?"), std::string::npos) << error.what();
  }
  server.join();
  ::close(listening);
}

}  // namespace
}  // namespace perigee
