#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <set>

#include "tests/testing/temp_dir.h"
#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/explain/report.h"

namespace tost {
namespace {
namespace fs = std::filesystem;
using nlohmann::json;

std::set<std::string> files_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    names.insert(fs::relative(entry.path(), folder).string());
  }
  return names;
}

void put(const fs::path& path, const std::string& text) {
  std::ofstream(path) << text;
}

template <typename Call>
Error error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return {ErrorKind::kData, ""};
}

TEST(ReportJson, MarksAndKeepsTheNumbers) {
  const json numbers = {{"b", {1, 2.5, std::nan(""), 1.0 / 0.0}},
                        {"a", {{"deep", {{{"x", 1}}, {{"x", 2}}}}, {"none", json::object()}}},
                        {"bytes", "\xFF"},
                        {"tost_report", "theirs"}};
  const std::string text = report_text(numbers);
  EXPECT_TRUE(text.starts_with(kReportMarker));
  const json read = json::parse(text);
  EXPECT_EQ(read["tost_report"], 1);
  EXPECT_EQ(read["b"], json::parse("[1, 2.5, null, null]"));
  EXPECT_EQ(read["a"], numbers["a"]);
  EXPECT_EQ(read["bytes"], "\xEF\xBF\xBD");
  EXPECT_EQ(report_text(json::object()), "{\n  \"tost_report\": 1\n}\n");
}

TEST(ReportFolder, WritesEverythingAndNothingElse) {
  const testing::TempDir dir;
  const fs::path folder = dir.path() / "deep" / "report";
  write_report(folder, {{"n", 1}}, false);
  EXPECT_EQ(files_in(dir.path() / "deep"),
            (std::set<std::string>{"report", "report/index.html", "report/report.json"}));
  EXPECT_EQ(json::parse(read_file(folder / "report.json", 1000))["n"], 1);
  EXPECT_EQ(read_file(folder / "index.html", 1 << 20), report_page({{"n", 1}}));
}

TEST(ReportFolder, ReplacesAnEarlierReportWhole) {
  const testing::TempDir dir;
  const fs::path folder = dir.path() / "report";
  write_report(folder, {}, false);
  const Error refused = error_of([&] { write_report(folder, {}, false); });
  EXPECT_EQ(refused.kind(), ErrorKind::kUsage);
  write_report(folder / "", {{"n", 2}}, true);
  EXPECT_EQ(files_in(dir.path()),
            (std::set<std::string>{"report", "report/index.html", "report/report.json"}));
  EXPECT_EQ(json::parse(read_file(folder / "report.json", 1000))["n"], 2);
}

TEST(ReportFolder, TakesAnEmptyFolderAndALink) {
  const testing::TempDir dir;
  fs::create_directory(dir.path() / "empty");
  fs::create_directory_symlink(dir.path() / "empty", dir.path() / "link");
  write_report(dir.path() / "link", {}, false);
  EXPECT_TRUE(fs::is_symlink(dir.path() / "link"));
  EXPECT_TRUE(fs::exists(dir.path() / "empty" / "index.html"));
}

TEST(ReportFolder, TheFolderIsCheckedBeforehand) {
  const testing::TempDir dir;
  const fs::path folder = dir.path() / "report";
  EXPECT_FALSE(check_report_target(folder, false));
  EXPECT_FALSE(fs::exists(folder));
  write_report(folder, {}, false);
  EXPECT_NE(
      std::string(error_of([&] { check_report_target(folder, false); }).what()).find("--overwrite"),
      std::string::npos);
  EXPECT_TRUE(check_report_target(folder, true));
}

// Nothing of the numbers may end the script that holds them, and nothing is fetched.
TEST(ReportPage, HoldsTheNumbersAndNothingElse) {
  const json numbers = {{"model", "</script><!-- \u2028 & \xFF"}};
  const std::string page = report_page(numbers);
  const size_t begin = page.find("{\"model\""), end = page.find("</script>", begin);
  ASSERT_NE(begin, std::string::npos);
  const std::string held = page.substr(begin, end - begin);
  EXPECT_EQ(held, "{\"model\":\"\\u003c/script>\\u003c!-- \\u2028 & \uFFFD\"}");
  EXPECT_EQ(json::parse(held)["model"], "</script><!-- \u2028 & \uFFFD");
  EXPECT_EQ(page.find("@numbers@"), std::string::npos);
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
  for (const char* request : {"src=\"http", "href=\"http", "url(", "import("}) {
    EXPECT_EQ(page.find(request), std::string::npos) << request;
  }
}

TEST(ReportFolder, NeverTouchesAFolderThatIsNoReport) {
  const testing::TempDir dir;
  const fs::path folder = dir.path() / "photos";
  const auto refused = [&] {
    const auto before = files_in(dir.path());
    const Error error = error_of([&] { write_report(folder, {}, true); });
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_NE(std::string(error.what()).find("photos"), std::string::npos);
    const Error known = error_of([&] { check_report_target(folder, true); });
    EXPECT_STREQ(known.what(), error.what());
    EXPECT_EQ(files_in(dir.path()), before);
  };
  fs::create_directory(folder);
  put(folder / "holiday.jpg", "x");
  refused();
  put(folder / "report.json", "{\"tost\": 1}");
  refused();
  fs::remove_all(folder);
  // A report to which someone has added files of their own.
  write_report(folder, {}, false);
  put(folder / "notes.txt", "mine");
  refused();
  fs::remove_all(folder);
  put(folder, "a file");
  refused();
  EXPECT_EQ(error_of([] { write_report("", {}, true); }).kind(), ErrorKind::kUsage);
  EXPECT_EQ(error_of([] { write_report("/", {}, true); }).kind(), ErrorKind::kUsage);
}

TEST(ReportFolder, UnwritablePlaceIsOneSentence) {
  const testing::TempDir dir;
  put(dir.path() / "file", "x");
  const Error error = error_of([&] { write_report(dir.path() / "file" / "report", {}, false); });
  EXPECT_EQ(error.kind(), ErrorKind::kData);
  EXPECT_TRUE(std::string(error.what()).ends_with("."));
  EXPECT_EQ(files_in(dir.path()), (std::set<std::string>{"file"}));
  if (::geteuid() == 0) return;  // root may write anywhere
  fs::create_directory(dir.path() / "locked");
  fs::permissions(dir.path() / "locked", fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_THROW(write_report(dir.path() / "locked" / "report", {}, false), Error);
  fs::permissions(dir.path() / "locked", fs::perms::owner_all);
}

TEST(ReportFolder, FullDiskLeavesTheOldReport) {
  const testing::TempDir dir;
  const std::string place = dir.path().string();
  if (::mount("none", place.c_str(), "tmpfs", 0, "size=1m") != 0) {
    GTEST_SKIP() << "no small disk can be mounted here";
  }
  const fs::path folder = dir.path() / "report";
  write_report(folder, {{"n", 1}}, false);
  const auto before = files_in(dir.path());
  const json large = {{"text", std::string(900'000, 'x')}};
  const Error error = error_of([&] { write_report(folder, large, true); });
  EXPECT_EQ(error.kind(), ErrorKind::kData);
  EXPECT_NE(std::string(error.what()).find("disk is full"), std::string::npos) << error.what();
  EXPECT_EQ(files_in(dir.path()), before);
  EXPECT_EQ(json::parse(read_file(folder / "report.json", 1000))["n"], 1);
  write_report(folder, {{"n", 3}}, true);
  EXPECT_EQ(json::parse(read_file(folder / "report.json", 1000))["n"], 3);
  EXPECT_EQ(::umount(place.c_str()), 0);
}

}  // namespace
}  // namespace tost
