// Tests whose body runs in several processes: copies of the test program, which meet over a file.
#pragma once

#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "tests/testing/temp_dir.h"
#include "tost/comm/group.h"

namespace tost::testing {

struct Processes {
  int64_t world = 2;
  double timeout = 300;
  std::vector<int> codes = {};  // expected exit codes by rank; empty: 0 of all
  bool one_gpu = false;         // all see the same one as theirs
};

inline int spawn_rank(const std::vector<std::string>& extra) {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  const std::string filter = cat("--gtest_filter=", test->test_suite_name(), ".", test->name());
  std::vector<std::string> variables = extra;
  for (char** one = environ; *one != nullptr; ++one) variables.emplace_back(*one);
  std::vector<char*> environment;
  for (std::string& one : variables) environment.push_back(one.data());
  environment.push_back(nullptr);
  std::string program = "/proc/self/exe", filter_flag = filter, brief = "--gtest_brief=1";
  char* arguments[] = {program.data(), filter_flag.data(), brief.data(), nullptr};
  pid_t pid = 0;
  EXPECT_EQ(posix_spawn(&pid, "/proc/self/exe", nullptr, nullptr, arguments, environment.data()),
            0);
  return pid;
}

// One call in a test. The processes run the test again, and with it `body`, each with its group.
// Each leaves a mark that it came to `body`: a program that finds no such test ends well, too.
inline void in_processes(const Processes& how, const std::function<void(Group&)>& body) {
  if (const char* rank = std::getenv("TOST_TEST_RANK")) {
    torch::set_num_threads(1);
    Group group({.rank = std::atoi(rank),
                 .world = how.world,
                 .file = std::getenv("TOST_TEST_STORE"),
                 .local_rank = how.one_gpu ? 0 : std::atoi(rank)},
                how.timeout);
    std::ofstream(cat(std::getenv("TOST_TEST_STORE"), ".", rank)) << "here";
    return body(group);
  }
  const TempDir folder;
  std::vector<int> pids;
  for (int64_t rank = 0; rank < how.world; ++rank) {
    pids.push_back(spawn_rank({cat("TOST_TEST_RANK=", rank), "OMP_NUM_THREADS=1",
                               cat("TOST_TEST_STORE=", (folder.path() / "store").string())}));
  }
  for (size_t rank = 0; rank < pids.size(); ++rank) {
    int status = 0;
    ASSERT_EQ(waitpid(pids[rank], &status, 0), pids[rank]);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    EXPECT_EQ(code, how.codes.empty() ? 0 : how.codes[rank]) << "rank " << rank;
    EXPECT_TRUE(std::filesystem::exists(folder.path() / cat("store.", rank)))
        << "rank " << rank << " has not run the test";
  }
}

}  // namespace tost::testing
