// Schedulers' environment variables, and node lists in Slurm's brackets.
#include "cluster/engines/engine.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "src/core/error.h"

namespace perigee {
namespace {

using Names = std::vector<std::string>;

TEST(NodeList, ExpandsBrackets) {
  EXPECT_EQ(expand_node_list("n1"), Names{"n1"});
  EXPECT_EQ(expand_node_list("n[1-3,07],login"), (Names{"n1", "n2", "n3", "n07", "login"}));
  EXPECT_EQ(expand_node_list("d[08-11]"), (Names{"d08", "d09", "d10", "d11"}));
  EXPECT_EQ(expand_node_list("r[1-2]n[1-2]x"), (Names{"r1n1x", "r1n2x", "r2n1x", "r2n2x"}));
  EXPECT_EQ(expand_node_list("n[0-65535]").size(), 65536u);
}

TEST(NodeList, RefusesWhatIsNone) {
  for (const char* bad : {"", ",", "n1,", "n[", "n]", "n[1", "n[]", "n[-1]", "n[1-]", "n[3-1]", "n[a-b]", "n[1-2", "n[[1]]",
                          "n[1-99999999999]", "n[0-65536]", "a[0-999]b[0-999]", "n[0-40000],m[0-40000]", "n[1-2-3]", "n[9999999999999]"})
    EXPECT_THROW(expand_node_list(bad), Error) << bad;
  try {
    expand_node_list(std::string(2 << 20, 'n'));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("Slurm's node list: is empty or too long"), std::string::npos) << error.what();
  }
  EXPECT_THROW(expand_node_list("n[0-65535]" + std::string(1 << 19, 'n')), Error);  // it would take 32 GiB
}

// Any text is either a list or an Error; what comes out has names of sensible length.
TEST(NodeList, SurvivesAnyText) {
  uint64_t state = 1;
  const auto next = [&] { return (state = state * 6364136223846793005u + 1442695040888963407u) >> 33; };
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (uint64_t length = next() % 24; text.size() < length;) text += "n[]-,0129x"[next() % 10];
    try {
      for (const std::string& name : expand_node_list(text)) ASSERT_TRUE(!name.empty() && name.size() <= 255) << text;
    } catch (const Error&) {
      // refused
    }
  }
}

Environment of(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const char* name) { return values.contains(name) ? values.at(name).c_str() : nullptr; };
}

TEST(Engine, NothingIsFoundWhereNobodyStartedUs) {
  EXPECT_FALSE(find_engine("auto", of({})));
  EXPECT_FALSE(find_engine("auto", of({{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}}))) << "a batch script is no step";
  EXPECT_FALSE(find_engine("none", of({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}})));
  const auto said = [](const std::string& name) -> std::string {
    try {
      find_engine(name, of({}));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(said("slurm"),
            "--engine: this process was not started by slurm; expected its variables: SLURM_JOB_ID, SLURM_STEP_ID, SLURM_PROCID; leave out "
            "--engine, or start it by slurm");
  EXPECT_EQ(said("slurmm"), "--engine: there is no engine 'slurmm'; did you mean 'slurm'?");
  try {
    find_engine("slrum", of({}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean 'slurm'"), std::string::npos) << error.what();
  }
}

TEST(Engine, OpenMpi) {
  std::map<std::string, std::string> values = {{"OMPI_COMM_WORLD_RANK", "1"},       {"OMPI_COMM_WORLD_SIZE", "4"},
                                               {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                                               {"PMIX_NAMESPACE", "12/3"},          {"PMIX_SERVER_TMPDIR", "/tmp/session"}};
  const auto engine = find_engine("auto", of(values));
  ASSERT_TRUE(engine);
  EXPECT_EQ(engine->name, "openmpi");
  EXPECT_EQ(engine->rank, 1);
  EXPECT_EQ(engine->size, 4);
  EXPECT_EQ(engine->meeting_file, "/tmp/session/.perigee-openmpi-12-3");
  EXPECT_NE(engine->advice.find("--enable-recovery"), std::string::npos);
  values["OMPI_COMM_WORLD_LOCAL_SIZE"] = "2";
  EXPECT_EQ(find_engine("auto", of(values))->meeting_file, "./.perigee-openmpi-12-3") << "several machines meet in a shared folder";
  values["OMPI_COMM_WORLD_RANK"] = "one";
  EXPECT_THROW(find_engine("auto", of(values)), Error);
}

TEST(Engine, Slurm) {
  const auto engine = find_engine("auto", of({{"SLURM_JOB_ID", "17"},
                                              {"SLURM_STEP_ID", "0"},
                                              {"SLURM_PROCID", "2"},
                                              {"SLURM_STEP_NUM_TASKS", "4"},
                                              {"SLURM_LOCALID", "0"},
                                              {"SLURM_STEP_NODELIST", "d[3-6]"},
                                              {"SLURM_SUBMIT_DIR", "/home/u"},
                                              {"SLURM_RESTART_COUNT", "1"}}));
  ASSERT_TRUE(engine);
  EXPECT_EQ(engine->name, "slurm");
  EXPECT_EQ(engine->rank, 2);
  EXPECT_EQ(engine->restarts, 1);
  EXPECT_TRUE(engine->coordinator.starts_with("d3:")) << engine->coordinator;
  EXPECT_EQ(engine->meeting_file, "/home/u/.perigee-slurm-17.0-1");
}

TEST(Engine, Torchrun) {
  std::map<std::string, std::string> values = {
      {"RANK", "1"},           {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "1"}, {"MASTER_ADDR", "10.0.0.1"}, {"LOCAL_WORLD_SIZE", "2"},
      {"MASTER_PORT", "4000"}, {"TMPDIR", "/mine"}};
  auto engine = find_engine("auto", of(values));
  ASSERT_TRUE(engine);
  EXPECT_EQ(engine->name, "torch");
  EXPECT_EQ(engine->coordinator, "10.0.0.1:4000");
  EXPECT_EQ(engine->meeting_file, "/mine/.perigee-torch-" + launcher_mark() + "-0") << "all are on this machine";
  EXPECT_FALSE(engine->lasting);
  values["LOCAL_WORLD_SIZE"] = "1";
  EXPECT_EQ(find_engine("auto", of(values))->meeting_file, "") << "no name that no other job has: a secret is needed";
  values["TORCHELASTIC_RUN_ID"] = "a/b";
  values["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  engine = find_engine("auto", of(values));
  EXPECT_EQ(engine->meeting_file, "./.perigee-torch-a-b-0");
  EXPECT_NE(engine->coordinator, "10.0.0.1:4000") << "torchrun listens there";
  values = {{"PET_NODE_RANK", "3"}, {"PET_NNODES", "4"}, {"PET_MASTER_ADDR", "job-node-0-0.job"}, {"PET_MASTER_PORT", "29400"}};
  engine = find_engine("auto", of(values));
  ASSERT_TRUE(engine);
  EXPECT_EQ(engine->rank, 3);
  EXPECT_EQ(engine->coordinator, "job-node-0-0.job:29400");
  values["PET_NNODES"] = "1:4";
  EXPECT_THROW(find_engine("auto", of(values)), Error);
}

TEST(Engine, Kubernetes) {
  std::map<std::string, std::string> values = {
      {"JOB_COMPLETION_INDEX", "2"}, {"PERIGEE_SIZE", "4"}, {"PERIGEE_COORDINATOR", "lenet-0.lenet:7700"}};
  auto engine = find_engine("auto", of(values));
  ASSERT_TRUE(engine);
  EXPECT_EQ(engine->name, "kubernetes");
  EXPECT_EQ(engine->rank, 2);
  EXPECT_EQ(engine->size, 4);
  EXPECT_EQ(engine->coordinator, "lenet-0.lenet:7700");
  EXPECT_FALSE(engine->lasting || engine->resumes) << "two jobs may have one name after each other";
  values["PERIGEE_JOB"] = "c0ffee-1";
  engine = find_engine("auto", of(values));
  EXPECT_TRUE(engine->lasting && engine->resumes && engine->job == "c0ffee-1");
  values["JOB_COMPLETION_INDEX"] = "4";
  EXPECT_THROW(find_engine("auto", of(values)), Error);
}

TEST(Engine, AwsBatch) {
  std::map<std::string, std::string> values = {
      {"AWS_BATCH_JOB_NODE_INDEX", "1"}, {"AWS_BATCH_JOB_NUM_NODES", "3"},
      {"AWS_BATCH_JOB_ID", "j7#1"},      {"AWS_BATCH_JOB_MAIN_NODE_INDEX", "0"},
      {"AWS_BATCH_JOB_ATTEMPT", "2"},    {"AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS", "10.0.0.9"}};
  auto engine = find_engine("auto", of(values));
  ASSERT_TRUE(engine && engine->name == "aws_batch");
  EXPECT_EQ(engine->coordinator, "10.0.0.9:7700");
  EXPECT_EQ(engine->job, "j7");
  EXPECT_EQ(engine->restarts, 1);
  values["AWS_BATCH_JOB_MAIN_NODE_INDEX"] = "2";  // not the first: the two change places
  EXPECT_EQ(find_engine("auto", of(values))->rank, 1);
  values["AWS_BATCH_JOB_NODE_INDEX"] = "0";
  EXPECT_EQ(find_engine("auto", of(values))->rank, 2);
  values["AWS_BATCH_JOB_NODE_INDEX"] = "2";
  values.erase("AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS");  // the main node is not told its own
  EXPECT_EQ(find_engine("auto", of(values))->rank, 0);
  values["AWS_BATCH_JOB_NODE_INDEX"] = "1";
  EXPECT_THROW(find_engine("auto", of(values)), Error) << "any other is";
}

TEST(Engine, SkyPilot) {
  const auto engine = find_engine("auto", of({{"SKYPILOT_NODE_RANK", "1"},
                                              {"SKYPILOT_NUM_NODES", "2"},
                                              {"SKYPILOT_NODE_IPS", "10.0.0.1\n10.0.0.2"},
                                              {"SKYPILOT_TASK_ID", "sky-2026_x-1"}}));
  ASSERT_TRUE(engine && engine->name == "skypilot");
  EXPECT_EQ(engine->coordinator, "10.0.0.1:7700");
  EXPECT_TRUE(engine->resumes);
}

TEST(Engine, SageMaker) {
  char folder[] = "/tmp/perigee-engine-XXXXXX";
  const std::string root = mkdtemp(folder);
  std::filesystem::create_directories(root + "/input/config");
  const auto write = [&](const std::string& text) { std::ofstream(root + "/input/config/resourceconfig.json") << text; };
  const Environment environment = of({{"TRAINING_JOB_NAME", "lenet-1"}, {"SM_ROOT", root}});
  EXPECT_FALSE(find_engine("auto", environment));
  write(R"({"current_host": "algo-2", "hosts": ["algo-2", "algo-1"], "network_interface_name": "eth0"})");
  const auto engine = find_engine("auto", environment);
  ASSERT_TRUE(engine && engine->name == "sagemaker");
  EXPECT_EQ(engine->rank, 1);
  EXPECT_EQ(engine->coordinator, "algo-1:7700");
  for (const char* bad : {"", "[]", "{}", R"({"current_host": 1, "hosts": []})", R"({"current_host": "a", "hosts": ["b"]})",
                          R"({"current_host": "a", "hosts": [1]})"}) {
    write(bad);
    EXPECT_THROW(find_engine("auto", environment), Error) << bad;
  }
  std::filesystem::remove_all(root);
}

// The launcher nearest to the process decides: mpiexec inside a batch job of Slurm, torchrun inside srun, a script inside srun that sets RANK.
TEST(Engine, TheNearestLauncherDecides) {
  std::map<std::string, std::string> values = {
      {"SLURM_JOB_ID", "17"}, {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "2"}, {"SLURM_STEP_NUM_TASKS", "4"},
      {"PMI_RANK", "1"},      {"PMI_SIZE", "2"},      {"PMI_FD", "9"},       {"PMIX_RANK", "1"},
      {"RANK", "0"},          {"WORLD_SIZE", "2"}};
  EXPECT_EQ(find_engine("auto", of(values))->name, "slurm");
  values["MPI_LOCALNRANKS"] = "2";
  EXPECT_EQ(find_engine("auto", of(values))->name, "pmi");
  values.erase("MPI_LOCALNRANKS");
  values["TORCHELASTIC_RUN_ID"] = "x";
  EXPECT_EQ(find_engine("auto", of(values))->name, "torch");
}

// Where nobody knows which of them this is, each would train a run of its own.
TEST(Engine, SeveralProcessesThatNobodyUnderstandsAreRefused) {
  for (const char* name :
       {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "FLUX_JOB_SIZE", "JSM_NAMESPACE_SIZE", "HOROVOD_SIZE",
        "SLURM_STEP_NUM_TASKS", "WORLD_SIZE", "PET_NNODES", "DMLC_NUM_WORKER", "AWS_BATCH_JOB_NUM_NODES", "SKYPILOT_NUM_NODES"}) {
    try {
      find_engine("auto", of({{name, "2"}}));
      FAIL() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      EXPECT_NE(std::string(error.what()).find(std::string(name) + "=2"), std::string::npos) << error.what();
    }
    EXPECT_FALSE(find_engine("auto", of({{name, "1"}}))) << name;
    EXPECT_FALSE(find_engine("none", of({{name, "2"}}))) << name;
  }
  for (const char* name : {"ALPS_APP_PE", "PALS_RANKID", "JOB_COMPLETION_INDEX"})
    EXPECT_THROW(find_engine("auto", of({{name, "0"}})), Error) << name;
}

TEST(Meeting, IsReadByItsOwnerAlone) {
  const auto said = [](const auto& work) -> std::string {
    try {
      work();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  char folder[] = "/tmp/perigee-engine-XXXXXX";
  const std::string file = std::string(mkdtemp(folder)) + "/meeting";
  EXPECT_FALSE(read_meeting(file));
  write_meeting(file, {"host:1", "ab"});
  write_meeting(file, {"host:2", "cd"});  // an older one is replaced
  const auto meeting = read_meeting(file);
  ASSERT_TRUE(meeting);
  EXPECT_EQ(meeting->address, "host:2");
  EXPECT_EQ(meeting->key, "cd");
  chmod(file.c_str(), 0644);
  EXPECT_EQ(said([&] { read_meeting(file); }),
            file +
                ": others can read or have made the file where the processes meet; expected a file of this user, with mode 0600; "
                "remove it, and start the job again");
  chmod(file.c_str(), 0600);
  std::ofstream(file, std::ios::trunc) << "perigee 1\nhost";
  EXPECT_FALSE(read_meeting(file)) << "half of one is none";
  std::remove(file.c_str());
  std::remove(folder);
  EXPECT_EQ(said([] {
              write_meeting("/nowhere/meeting", {"a", "b"});
            }),
            "/nowhere/meeting: the file where the processes meet cannot be written; got No such file or directory; "
            "start it in a folder that all machines share, or give every process --secret");
}

}  // namespace
}  // namespace perigee
