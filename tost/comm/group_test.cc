#include "tost/comm/group.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <csignal>
#include <stdexcept>
#include <thread>

#include "tests/testing/errors.h"
#include "tost/comm/backends.h"
#include "tost/comm/processes_test_util.h"
#include "tost/comm/sums.h"

namespace tost {
namespace {

using testing::in_processes;
using torch::Tensor;

class Groups : public ::testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Processes, Groups, ::testing::Values(2, 4));

TEST_P(Groups, SumsAndPartsAreTheSameBitsEverywhere) {
  in_processes({.world = GetParam()}, [](Group& group) {
    torch::manual_seed(1);
    Tensor expected = torch::zeros({64 * group.world()}, torch::kDouble), local;
    for (int64_t rank = 0; rank < group.world(); ++rank) {
      const Tensor x = torch::randn({64 * group.world()});
      expected += x.to(torch::kDouble);
      if (rank == group.rank()) local = x;
    }
    const Tensor sum = local.clone();
    group.sum(sum);
    EXPECT_TRUE(torch::allclose(sum.to(torch::kDouble), expected, 1e-5, 1e-5));
    const Tensor all = group.gather(sum);
    for (int64_t rank = 0; rank < group.world(); ++rank) EXPECT_TRUE(torch::equal(all[rank], sum));

    const Tensor part = torch::empty({64});
    group.begin_scatter_sum(part, local)();
    EXPECT_TRUE(torch::equal(part, sum.narrow(0, 64 * group.rank(), 64)));
    const Tensor whole = torch::empty_like(sum);
    group.gather_parts(whole, part);
    EXPECT_TRUE(torch::equal(whole, sum));

    Tensor numbers = torch::full({3}, double(group.rank() + 7));
    group.broadcast(numbers);
    EXPECT_TRUE(numbers.eq(7).all().item<bool>());
    EXPECT_GT(group.sent(), 0);
  });
}

TEST_P(Groups, TextsCountsAndDecisionsAreShared) {
  in_processes({.world = GetParam()}, [](Group& group) {
    const std::string local(size_t(group.rank() * 100), char('a' + group.rank()));
    const auto texts = group.gather_texts(local);
    for (int64_t rank = 0; rank < group.world(); ++rank) {
      EXPECT_EQ(texts[size_t(rank)], std::string(size_t(rank * 100), char('a' + rank)));
    }
    EXPECT_EQ(group.broadcast_text(group.first() ? "from 0" : "other"), "from 0");
    EXPECT_EQ(group.broadcast_text(""), "");
    EXPECT_TRUE(group.any(group.rank() == 1));
    EXPECT_FALSE(group.any(false));
    std::vector<int64_t> counts{1, int64_t{1} << 40};
    add_up(&group, counts);
    EXPECT_EQ(counts, (std::vector<int64_t>{group.world(), group.world() << 40}));
    double number = 0.5;
    int64_t count = int64_t{1} << 40;
    EXPECT_TRUE(add_up(&group, {&number}, {&count}, false));
    EXPECT_EQ(number, 0.5 * double(group.world()));
    EXPECT_EQ(count, group.world() << 40);
    EXPECT_FALSE(add_up(&group, {&number}, {}, group.rank() == 1));
  });
}

TEST_P(Groups, AnErrorOfOneIsTheErrorOfAll) {
  in_processes({.world = GetParam()}, [](Group& group) {
    const auto fail = [&] {
      if (group.rank() == 1) fail_usage("no such file.");
    };
    try {
      group.together(fail);
      FAIL() << "must throw";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      EXPECT_STREQ(error.what(), "Rank 1: no such file.");
      EXPECT_EQ(dynamic_cast<const ReportedElsewhere*>(&error) == nullptr, group.first());
    }
    group.together([] {});
    EXPECT_EQ(group.by_first([] { return std::string("value"); }), "value");
    try {
      group.by_first([]() -> std::string { fail_data("the disk is full."); });
      FAIL() << "must throw";
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "the disk is full.");
      EXPECT_EQ(error.kind(), ErrorKind::kData);
    }
  });
}

TEST(Groups, PartsOfAGroupAreGroups) {
  in_processes({.world = 4}, [](Group& group) {
    const auto pair = group.split("pair", group.rank() / 2);
    EXPECT_EQ(pair->world(), 2);
    EXPECT_EQ(pair->rank(), group.rank() % 2);
    Tensor x = torch::full({1}, double(group.rank()));
    const auto wait = pair->begin_sum(x);
    EXPECT_TRUE(group.any(true));
    wait();
    EXPECT_EQ(x.item<double>(), group.rank() < 2 ? 1 : 5);
  });
}

using Call = std::function<void(Group&)>;

struct NamedCall {
  const char* name;
  Call call;
};

// A sum that says when it is completed, and one that does not.
std::vector<NamedCall> waiting_calls() {
  return {{"Sum", [](Group& group) { group.any(false); }},
          {"ScatteredSum",
           [](Group& group) { group.begin_scatter_sum(torch::ones({2}), torch::ones({6}))(); }}};
}

class LostProcess : public ::testing::TestWithParam<NamedCall> {};

INSTANTIATE_TEST_SUITE_P(Calls, LostProcess, ::testing::ValuesIn(waiting_calls()),
                         [](const auto& info) { return info.param.name; });

void expect_lost(Group& group, const std::string& rank, const Call& call) {
  try {
    for (int i = 0; i < 100; ++i) call(group);
    FAIL() << "rank 1 is gone";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find(rank), 0u) << error.what();
    // One of them speaks.
    EXPECT_EQ(dynamic_cast<const ReportedElsewhere*>(&error) == nullptr, group.first());
  }
}

TEST_P(LostProcess, IsNamedWhenKilled) {
  in_processes({.world = 3, .codes = {0, -SIGKILL, 0}}, [](Group& group) {
    group.any(true);
    if (group.rank() == 1) raise(SIGKILL);
    expect_lost(group, "Rank 1 of 3 was lost", GetParam().call);
  });
}

TEST_P(LostProcess, IsNamedAfterTheTimeoutWhenItHangs) {
  in_processes({.world = 3, .codes = {0, -SIGKILL, 0}}, [](Group& group) {
    group.any(true);
    group.set_timeout(2);  // all have met, which may take a busy machine longer
    if (group.rank() == 1) {
      // Hangs, with its connections open, until the others are done.
      std::this_thread::sleep_for(std::chrono::seconds(16));
      raise(SIGKILL);
    }
    expect_lost(group, "Rank 1 of 3 was lost", GetParam().call);
  });
}

TEST(Groups, AnErrorOfOneReachesThoseThatWait) {
  in_processes({.world = 3}, [](Group& group) {
    group.any(true);
    if (group.rank() == 1) {
      EXPECT_TRUE(group.leave(Error(ErrorKind::kUsage, "no memory.")));
      EXPECT_FALSE(group.leave(Error(ErrorKind::kData, "twice.")));
      return;
    }
    try {
      for (int i = 0; i < 100; ++i) group.any(false);
      FAIL() << "rank 1 has left";
    } catch (const ReportedElsewhere& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      EXPECT_STREQ(error.what(), "Rank 1: no memory.");
    }
  });
}

TEST(Groups, ARankThatNeverComesIsNamed) {
  if (std::getenv("TOST_TEST_RANK") != nullptr) return;
  const testing::TempDir folder;
  const std::string message = testing::data_error_of([&] {
    Group({.rank = 0, .world = 3, .file = (folder.path() / "store").string()}, /*timeout=*/2);
  });
  EXPECT_NE(message.find("Rank 1, 2 of 3 did not come within 2 s"), std::string::npos) << message;
}

TEST(Groups, APortInUseIsNamed) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t size = sizeof(name);
  ASSERT_EQ(bind(socket, reinterpret_cast<sockaddr*>(&name), size), 0);
  ASSERT_EQ(listen(socket, 1), 0);
  getsockname(socket, reinterpret_cast<sockaddr*>(&name), &size);
  GroupPlace place;
  place.world = 2;
  place.port = ntohs(name.sin_port);
  const std::string message = testing::usage_error_of([&] { Group(place, 5); });
  EXPECT_EQ(message.find(cat("Port ", place.port, " of 127.0.0.1 cannot be opened")), 0u)
      << message;
  close(socket);
}

// Ends as the wait for it does: the wait throws, and the work is completed.
class EndsWithTheTurn : public c10d::Work {
 public:
  explicit EndsWithTheTurn(const char* failure = nullptr) : failure_(failure) {}
  bool wait(std::chrono::milliseconds turn) override {
    if (!isCompleted()) {
      std::this_thread::sleep_for(turn);
      finish(failure_ == nullptr ? nullptr : std::make_exception_ptr(std::runtime_error(failure_)));
      throw std::runtime_error("Operation timed out!");
    }
    if (exception_) std::rethrow_exception(exception_);
    return true;
  }

 private:
  const char* failure_;
};

struct RunsOn : c10d::Work {
  bool wait(std::chrono::milliseconds turn) override {
    std::this_thread::sleep_for(turn);
    throw std::runtime_error("Operation timed out!");
  }
};

struct FailsAtOnce : c10d::Work {
  bool wait(std::chrono::milliseconds) override { throw std::runtime_error("broken pipe"); }
};

TEST(Waits, WorkThatEndsAsItsTurnDoesHasEnded) {
  using namespace std::chrono_literals;
  EndsWithTheTurn good, bad("broken pipe");
  EXPECT_TRUE(ends_within(good, 2ms));
  const auto message = [](c10d::Work& work, std::chrono::milliseconds turn) {
    try {
      return ends_within(work, turn) ? std::string("ended") : std::string("runs on");
    } catch (const std::exception& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(message(bad, 2ms), "broken pipe");
  RunsOn on;
  EXPECT_EQ(message(on, 2ms), "runs on");
  FailsAtOnce fails;
  EXPECT_EQ(message(fails, 1h), "broken pipe");
}

}  // namespace
}  // namespace tost
