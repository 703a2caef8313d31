#include "tost/nn/precision.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/testing/errors.h"
#include "tost/base/error.h"
#include "tost/nn/layers.h"

namespace tost {
namespace {

using testing::usage_error_of;

TEST(Precision, NamesAreReadAndWritten) {
  EXPECT_EQ(list_of(all_precisions()), "fp32, bf16, int8, int4");
  EXPECT_EQ(list_of(all_precisions(), " or "), "fp32, bf16, int8 or int4");
  EXPECT_EQ(list_of(stored_precisions()), "bf16, int8, int4");
  EXPECT_EQ(list_of(integer_precisions(), " and "), "int8 and int4");
  EXPECT_EQ(list_of(classifier_precisions(/*engine=*/true)), "fp32, bf16, int8");
  EXPECT_EQ(list_of(classifier_precisions(/*engine=*/false)), "fp32, bf16");
  for (const Precision precision : all_precisions()) {
    EXPECT_EQ(precision_from_name(cat(precision)), precision);
    const nlohmann::json json = precision;
    EXPECT_EQ(json, nlohmann::json(name_of(precision)));
    EXPECT_EQ(json.get<Precision>(), precision);
  }
}

TEST(Precision, UnknownNamesAreRefusedWithTheKnown) {
  EXPECT_EQ(usage_error_of([] { precision_from_name("fp16"); }),
            "Unknown precision 'fp16' (known: fp32, bf16, int8, int4). Did you mean 'fp32'?");
  for (const char* name : {"", "fp32 ", "FP32", "int44"}) {
    EXPECT_FALSE(usage_error_of([&] { precision_from_name(name); }).empty()) << name;
  }
}

// What a precision lacks is told where it is to be used.
TEST(Precision, UsesOfOthersAreRefused) {
  EXPECT_EQ(usage_error_of([] { packing_of(Precision::kInt4); }),
            "Unknown precision 'int4' (known: fp32, bf16, int8).");
  EXPECT_EQ(usage_error_of([] { PrecisionScope(Precision::kInt8); }),
            "Unknown precision 'int8' (known: fp32, bf16).");
  Linear map(2, 3, false);
  EXPECT_FALSE(usage_error_of([&] { use_precision(map, Precision::kInt8); }).empty());
  use_precision(map, Precision::kFp32);
  EXPECT_EQ(map.weight.scalar_type(), torch::kFloat);
  use_precision(map, Precision::kBf16);
  EXPECT_EQ(map.weight.scalar_type(), torch::kBFloat16);
}

}  // namespace
}  // namespace tost
