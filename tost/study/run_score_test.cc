#include "tost/study/run_score.h"

#include <gtest/gtest.h>

#include "tost/base/file.h"
#include "tost/kinds/kinds.h"
#include "tost/store/run_layout.h"
#include "tost/testing/errors.h"
#include "tost/testing/temp_dir.h"

namespace tost {
namespace {

using nlohmann::json;

// A run folder whose log has this one evaluation.
RunRecord scored(const std::string& kind, const json& evaluation) {
  const testing::TempDir dir;
  write_file_atomic(dir.path() / kMetricsFile, evaluation.dump());
  write_file_atomic(dir.path() / kModelInfoFile, "{}");
  RunRecord record;
  EXPECT_TRUE(score_run(dir.path(), run_kind_named(kind), json::object(), record, nullptr));
  return record;
}

std::string refused(const std::string& kind, const json& evaluation) {
  return testing::data_error_of([&] { scored(kind, evaluation); });
}

const json kEvaluation{{"kind", "eval"}, {"step", 8}, {"epoch", 2}, {"loss", 1.5}};

TEST(RunScore, ReadsTheLog) {
  const RunRecord text = scored("language", kEvaluation);
  EXPECT_EQ(text.scores.at("loss"), 1.5);
  EXPECT_EQ(text.curve.steps, (std::vector<int64_t>{8}));
  EXPECT_EQ(text.curve.epochs, (std::vector<int64_t>{2}));
  json recall = kEvaluation;
  recall["accuracy"] = 0.75;
  recall["cases"] = {{{"length", 64}, {"pairs", 4}, {"accuracy", 0.25}}};
  const RunRecord record = scored("recall", recall);
  EXPECT_EQ(record.scores.at("accuracy"), 0.75);
  EXPECT_EQ(record.scores.at("accuracy 64/4"), 0.25);
}

TEST(RunScore, RefusesNumbersThatAreNone) {
  for (const char* key : {"step", "epoch"}) {
    json evaluation = kEvaluation;
    evaluation[key] = 1e300;
    const std::string error = refused("language", evaluation);
    EXPECT_NE(error.find(std::string("no integer '") + key), std::string::npos) << error;
    evaluation.erase(key);
    EXPECT_EQ(refused("language", evaluation), error);
  }
  json recall = kEvaluation;
  recall["cases"] = {{{"accuracy", 0.25}}};
  EXPECT_NE(refused("recall", recall).find("'length'"), std::string::npos);
}

}  // namespace
}  // namespace tost
