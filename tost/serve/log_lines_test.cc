#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <future>

#include "tost/serve/metrics.h"

namespace tost {
namespace {

TEST(LogLines, AreDroppedAndCountedWithoutAReader) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  std::future<std::string> read;
  {
    LogLines log(ends[1]);
    const std::string line(300, 'x');
    int64_t added = 0;
    for (; log.dropped() < 5; ++added) log.add(line);
    read = std::async(std::launch::async, [&] {
      std::string all;
      char part[4096];
      for (ssize_t n; (n = ::read(ends[0], part, sizeof part)) > 0;) all.append(part, size_t(n));
      return all;
    });
  }
  ::close(ends[1]);
  const auto all = read.get();
  int64_t reported = 0;
  static const std::string kNote = "{\"dropped\": ";
  for (size_t at = 0; (at = all.find(kNote, at)) != std::string::npos;) {
    reported += std::stoi(all.substr(at += kNote.size()));
  }
  EXPECT_EQ(reported, 5);
  EXPECT_EQ(all.back(), '\n');
  ::close(ends[0]);
}

TEST(LogLines, DoNotKeepAServerThatEnds) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  {
    LogLines log(ends[1]);
    while (log.dropped() == 0) log.add("line");
  }
  ::close(ends[0]);
  {
    LogLines log(ends[1]);  // without a reader; SIGPIPE is ignored by the program
    std::signal(SIGPIPE, SIG_IGN);
    log.add("line");
  }
  ::close(ends[1]);
}

}  // namespace
}  // namespace tost
