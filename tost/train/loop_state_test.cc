#include "tost/train/loop_state.h"

#include <gtest/gtest.h>

#include "tests/testing/errors.h"

namespace tost {
namespace {

using nlohmann::json;
using testing::data_error_of;

// A cast would make something of them.
TEST(LoopState, CountsAreIntegers) {
  LoopState state;
  state.step = 3;
  const json good = to_json(state);
  EXPECT_EQ(loop_state_from_json(good, "state.json").step, 3);
  for (const char* place : {"/format", "/step", "/evaluated_step", "/sums/steps", "/sums/samples",
                            "/guards/skipped", "/guards/rollback_step"}) {
    for (const json& value : {json(1e300), json(1.5), json(uint64_t{1} << 63), json("1")}) {
      json bad = good;
      bad[json::json_pointer(place)] = value;
      const std::string message = data_error_of([&] { loop_state_from_json(bad, "state.json"); });
      EXPECT_NE(message.find("'state.json'"), std::string::npos) << place << " " << value;
      EXPECT_NE(message.find("where an integer belongs"), std::string::npos) << message;
    }
  }
  json bad = good;
  bad["step"] = -1;
  EXPECT_NE(data_error_of([&] { loop_state_from_json(bad, "s"); }).find("step -1"),
            std::string::npos);
}

}  // namespace
}  // namespace tost
