#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <set>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/report/chart.h"
#include "tost/report/page.h"
#include "tost/testing/temp_dir.h"

namespace tost {
namespace {
namespace fs = std::filesystem;
using nlohmann::json;

Page small_page(const std::string& title, int panels = 1) {
  Page page(title, "");
  for (int i = 0; i < panels; ++i) {
    page.chart("panel-" + std::to_string(i),
               {.width = 20,
                .height = 20,
                .description = "d",
                .shapes = {RectShape{.width = 9, .height = 9, .fill = Paint::of(Ink::kText)}}});
  }
  return page;
}

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
  const std::string text = report_json(numbers);
  EXPECT_TRUE(text.starts_with(kReportMarker));
  const json read = json::parse(text);
  EXPECT_EQ(read["tost_report"], 1);
  EXPECT_EQ(read["b"], json::parse("[1, 2.5, null, null]"));
  EXPECT_EQ(read["a"], numbers["a"]);
  EXPECT_EQ(read["bytes"], "\xEF\xBF\xBD");
  EXPECT_EQ(report_json(json::object()), "{\n  \"tost_report\": 1\n}\n");
  EXPECT_THROW(report_json(json::array()), Error);
}

TEST(SaveReport, WritesEverythingAndNothingElse) {
  const testing::TempDir dir;
  const fs::path folder = dir.path() / "deep" / "report";
  save_report(folder, small_page("one", 2), {{"n", 1}}, false);
  EXPECT_EQ(
      files_in(dir.path() / "deep"),
      (std::set<std::string>{"report", "report/index.html", "report/report.json", "report/panels",
                             "report/panels/panel-0.png", "report/panels/panel-1.png"}));
  EXPECT_EQ(json::parse(read_file(folder / "report.json", 1000))["n"], 1);
  EXPECT_EQ(
      read_file(folder / "index.html", 1 << 20),
      small_page("one", 2).html("Every number of this page is in report.json next to it, every "
                                "figure as a picture in panels/."));
}

TEST(SaveReport, ReplacesAnEarlierReportWhole) {
  const testing::TempDir dir;
  const fs::path folder = dir.path() / "report";
  save_report(folder, small_page("one", 3), {}, false);
  const Error refused = error_of([&] { save_report(folder, small_page("two"), {}, false); });
  EXPECT_EQ(refused.kind(), ErrorKind::kUsage);
  save_report(folder / "", small_page("two"), {{"n", 2}}, true);
  EXPECT_EQ(files_in(dir.path()),
            (std::set<std::string>{"report", "report/index.html", "report/report.json",
                                   "report/panels", "report/panels/panel-0.png"}));
  EXPECT_EQ(json::parse(read_file(folder / "report.json", 1000))["n"], 2);
}

TEST(SaveReport, TakesAnEmptyFolderAndALink) {
  const testing::TempDir dir;
  fs::create_directory(dir.path() / "empty");
  fs::create_directory_symlink(dir.path() / "empty", dir.path() / "link");
  save_report(dir.path() / "link", small_page("one"), {}, false);
  EXPECT_TRUE(fs::is_symlink(dir.path() / "link"));
  EXPECT_TRUE(fs::exists(dir.path() / "empty" / "index.html"));
}

TEST(SaveReport, TheFolderIsJudgedBeforehand) {
  const testing::TempDir dir;
  const fs::path folder = dir.path() / "report";
  EXPECT_FALSE(check_report_folder(folder, false));
  EXPECT_FALSE(fs::exists(folder));
  save_report(folder, small_page("one"), {}, false);
  EXPECT_NE(
      std::string(error_of([&] { check_report_folder(folder, false); }).what()).find("--overwrite"),
      std::string::npos);
  EXPECT_TRUE(check_report_folder(folder, true));
}

TEST(SaveReport, OnlySavedPagesSpeakOfFilesBesideThem) {
  const testing::TempDir dir;
  save_report(dir.path() / "report", small_page("one"), {}, false);
  const std::string saved = read_file(dir.path() / "report" / "index.html", 1 << 20);
  EXPECT_NE(saved.find("<footer>Every number of this page is in report.json"), std::string::npos);
  EXPECT_EQ(small_page("one").html().find("<footer"), std::string::npos);
  EXPECT_NE(small_page("one").html("a <b>").find("<footer>a &lt;b&gt;</footer>"),
            std::string::npos);
}

TEST(SaveReport, NeverTouchesAFolderThatIsNoReport) {
  const testing::TempDir dir;
  const fs::path folder = dir.path() / "photos";
  const auto refused = [&] {
    const auto before = files_in(dir.path());
    const Error error = error_of([&] { save_report(folder, small_page("x"), {}, true); });
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_NE(std::string(error.what()).find("photos"), std::string::npos);
    const Error known = error_of([&] { check_report_folder(folder, true); });
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
  save_report(folder, small_page("one"), {}, false);
  put(folder / "notes.txt", "mine");
  refused();
  fs::remove(folder / "notes.txt");
  put(folder / "panels" / "notes.txt", "mine");
  refused();
  fs::remove_all(folder);
  put(folder, "a file");
  refused();
  EXPECT_EQ(error_of([] { save_report("", small_page("x"), {}, true); }).kind(), ErrorKind::kUsage);
  EXPECT_EQ(error_of([] { save_report("/", small_page("x"), {}, true); }).kind(),
            ErrorKind::kUsage);
}

TEST(SaveReport, FailureLeavesTheOldReportAndNothingElse) {
  const testing::TempDir dir;
  const fs::path folder = dir.path() / "report";
  save_report(folder, small_page("one"), {{"n", 1}}, false);
  const auto before = files_in(dir.path());
  Page broken = small_page("two");
  broken.begin_details("never ended");
  EXPECT_THROW(save_report(folder, broken, {{"n", 2}}, true), Error);
  EXPECT_THROW(save_report(folder, small_page("two"), json::array(), true), Error);
  EXPECT_EQ(files_in(dir.path()), before);
  EXPECT_EQ(json::parse(read_file(folder / "report.json", 1000))["n"], 1);
}

TEST(SaveReport, UnwritablePlaceIsOneSentence) {
  const testing::TempDir dir;
  put(dir.path() / "file", "x");
  const Error error =
      error_of([&] { save_report(dir.path() / "file" / "report", small_page("x"), {}, false); });
  EXPECT_EQ(error.kind(), ErrorKind::kData);
  EXPECT_TRUE(std::string(error.what()).ends_with("."));
  EXPECT_EQ(files_in(dir.path()), (std::set<std::string>{"file"}));
  if (::geteuid() == 0) return;  // root may write anywhere
  fs::create_directory(dir.path() / "locked");
  fs::permissions(dir.path() / "locked", fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_THROW(save_report(dir.path() / "locked" / "report", small_page("x"), {}, false), Error);
  fs::permissions(dir.path() / "locked", fs::perms::owner_all);
}

TEST(SaveReport, FullDiskLeavesTheOldReport) {
  const testing::TempDir dir;
  const std::string place = dir.path().string();
  if (::mount("none", place.c_str(), "tmpfs", 0, "size=192k") != 0) {
    GTEST_SKIP() << "no small disk can be mounted here";
  }
  const fs::path folder = dir.path() / "report";
  save_report(folder, small_page("one"), {{"n", 1}}, false);
  const auto before = files_in(dir.path());
  const json large = {{"text", std::string(300'000, 'x')}};
  const Error error = error_of([&] { save_report(folder, small_page("two"), large, true); });
  EXPECT_EQ(error.kind(), ErrorKind::kData);
  EXPECT_NE(std::string(error.what()).find("disk is full"), std::string::npos) << error.what();
  EXPECT_EQ(files_in(dir.path()), before);
  EXPECT_EQ(json::parse(read_file(folder / "report.json", 1000))["n"], 1);
  save_report(folder, small_page("three"), {{"n", 3}}, true);
  EXPECT_EQ(json::parse(read_file(folder / "report.json", 1000))["n"], 3);
  EXPECT_EQ(::umount(place.c_str()), 0);
}

}  // namespace
}  // namespace tost
