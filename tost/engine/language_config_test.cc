#include "tost/engine/language_config.h"

#include <gtest/gtest.h>

#include "tost/base/error.h"

namespace tost {
namespace {

// The engine opens files without the modules' checks, so that these must not let any of it pass.
TEST(LanguageConfig, RefusesWhatNoModelHas) {
  LanguageConfig good;
  EXPECT_NO_THROW(check_language_config(good));
  LanguageConfig bad = good;
  bad.heads = 7;  // of a width of 768
  EXPECT_THROW(check_language_config(bad), Error);
  bad = good;
  bad.dropout = 1;
  EXPECT_THROW(check_language_config(bad), Error);
  bad = good;
  bad.mlp_ratio = 65;
  EXPECT_THROW(check_language_config(bad), Error);
}

}  // namespace
}  // namespace tost
