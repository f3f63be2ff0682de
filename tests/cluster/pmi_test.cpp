// PMI's lines, against a launcher of our own that answers as Hydra does, or badly. tests/cluster/engines_test.py has the real one.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "cluster/engines/engine.h"
#include "src/core/error.h"

namespace perigee {
namespace {

Environment pmi(int rank, int descriptor) {
  return [rank = std::to_string(rank), fd = std::to_string(descriptor)](const char* name) -> const char* {
    return std::string(name) == "PMI_RANK"   ? rank.c_str()
           : std::string(name) == "PMI_SIZE" ? "2"
           : std::string(name) == "PMI_FD"   ? fd.c_str()
                                             : nullptr;
  };
}

// A launcher that gives these answers, one a line; then it hangs up. Returns what it was asked.
struct Fake {
  explicit Fake(std::vector<std::string> given) : answers(std::move(given)) {
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) std::abort();
    thread = std::thread([this] {
      for (const std::string& answer : answers) {
        std::string line;
        for (char letter = 0; read(ends[1], &letter, 1) == 1 && letter != '\n';) line += letter;
        asked += line + "\n";
        if (send(ends[1], answer.data(), answer.size(), MSG_NOSIGNAL) < 0) break;  // the other end may be gone
      }
      close(ends[1]);
    });
  }
  ~Fake() { thread.join(); }
  int ends[2] = {};
  std::vector<std::string> answers;
  std::string asked;
  std::thread thread;
};

constexpr const char* kHello = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n";
constexpr const char* kSpace = "cmd=my_kvsname kvsname=kvs_7\n";
const std::atomic<bool> running{false};

std::string said(const Environment& environment, const std::atomic<bool>& stop) {
  try {
    find_engine("auto", environment)->exchange(nullptr, stop);
  } catch (const Error& error) {
    return error.what();
  }
  return "met";
}

TEST(Pmi, RankZeroTellsAndTheOthersAsk) {
  {
    Fake launcher({kHello, kSpace, "cmd=put_result rc=0\n", "cmd=barrier_out\n", "cmd=get_result rc=0 msg=success value=[::1]:70,ab\n",
                   "cmd=finalize_ack\n"});
    const Meeting mine = {"[::1]:70", "ab"};
    const auto engine = find_engine("auto", pmi(0, launcher.ends[0]));
    ASSERT_TRUE(engine && engine->name == "pmi" && engine->size == 2);
    EXPECT_EQ(engine->exchange(&mine, running).address, "[::1]:70");
    launcher.thread.join();
    launcher.thread = std::thread([] {});
    EXPECT_NE(launcher.asked.find("cmd=put kvsname=kvs_7 key=perigee value=[::1]:70,ab\ncmd=barrier_in\n"), std::string::npos)
        << launcher.asked;
    EXPECT_TRUE(launcher.asked.ends_with("cmd=finalize\n")) << "else the launcher takes our end for a crash";
  }
  Fake launcher({kHello, kSpace, "cmd=barrier_out\n", "cmd=get_result rc=0 msg=success value=h:70,ab\n", "cmd=finalize_ack\n"});
  EXPECT_EQ(find_engine("auto", pmi(1, launcher.ends[0]))->exchange(nullptr, running).key, "ab");
}

TEST(Pmi, BadAnswersAreErrors) {
  const std::vector<std::pair<std::vector<std::string>, const char*>> all = {
      {{}, ""},
      {{""}, "the launcher hung up"},
      {{"cmd=response_to_init rc=-1\n"}, "expected cmd=response_to_init; got 'cmd=response_to_init rc=-1'"},
      {{"nonsense\n"}, "expected cmd=response_to_init; got 'nonsense'"},
      {{std::string(5000, 'x')}, "a line without end"},
      {{kHello, kSpace, "cmd=barrier_out\n", "cmd=get_result rc=-1 msg=key_perigee_not_found\n"}, "expected cmd=get_result"},
      {{kHello, kSpace, "cmd=barrier_out\n", "cmd=get_result rc=0 value=nocomma\n", "cmd=finalize_ack\n"},
       "rank 0 told no address; got 'nocomma'"},
      {{kHello, kSpace, "cmd=barrier_out\n", "cmd=get_result\n", "cmd=finalize_ack\n"}, "rank 0 told no address"},
  };
  for (const auto& [answers, says] : all) {
    Fake launcher(answers);
    const std::string text = said(pmi(1, launcher.ends[0]), running);
    EXPECT_NE(text.find(says), std::string::npos) << text;
    EXPECT_NE(text.find("the launcher's PMI_FD: "), std::string::npos) << text;
    EXPECT_NE(text.find("--engine none"), std::string::npos) << text;
  }
  EXPECT_NE(said(pmi(1, 1000), running).find("the process between the launcher and this one closed it"), std::string::npos);
}

TEST(Pmi, SigtermEndsTheWait) {
  int silent[2] = {};  // a launcher that does not answer
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, silent), 0);
  std::atomic<bool> stop{false};
  std::thread later([&] { stop = true; });
  EXPECT_NE(said(pmi(1, silent[0]), stop).find("stopped while the processes met"), std::string::npos);
  later.join();
  close(silent[1]);
}

}  // namespace
}  // namespace perigee
