#include "tost/serve/app.h"

#include <gtest/gtest.h>

namespace tost {
namespace {

TEST(Access, ComparesWholeSecrets) {
  EXPECT_TRUE(same_secret("Bearer k", "Bearer k"));
  EXPECT_TRUE(same_secret("", ""));
  for (const char* other : {"", "B", "Bearer ", "Bearer K", "Bearer kk", "bearer k"}) {
    EXPECT_FALSE(same_secret(other, "Bearer k")) << other;
  }
}

// A page of another site that had its name resolved to this machine shows that name.
TEST(Access, TakesAddressesAndNamesThatWereGiven) {
  for (const char* host : {"localhost", "LocalHost:8080", "127.0.0.1", "127.0.0.1:80", "10.1.2.3:1",
                           "[::1]", "[::1]:8080"}) {
    EXPECT_TRUE(host_allowed(host, {})) << host;
  }
  for (const char* host : {"", "evil.example", "evil.example:8080", "127.0.0.1.evil.example",
                           "localhost.evil.example:1", ":80", "1.2.3.4@evil.example"}) {
    EXPECT_FALSE(host_allowed(host, {})) << host;
  }
  EXPECT_TRUE(host_allowed("Models.example:443", {"models.example"}));
  EXPECT_FALSE(host_allowed("other.example", {"models.example"}));
}

TEST(Access, TakesItsOwnPagesAlone) {
  EXPECT_TRUE(origin_allowed("", "localhost:8080"));
  EXPECT_TRUE(origin_allowed("http://localhost:8080", "localhost:8080"));
  EXPECT_TRUE(origin_allowed("https://models.example", "models.example"));
  for (const char* origin : {"null", "http://localhost", "http://localhost:8081",
                             "http://evil.example", "localhost:8080"}) {
    EXPECT_FALSE(origin_allowed(origin, "localhost:8080")) << origin;
  }
}

}  // namespace
}  // namespace tost
