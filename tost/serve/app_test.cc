#include "tost/serve/app.h"

#include <gtest/gtest.h>

#include <future>

namespace tost {
namespace {

// Keeps its answer; `gate`: what its answer waits for.
struct TestExchange : Exchange {
  TestExchange(const std::string& method, const std::string& target) : Exchange(HttpRequest{}) {
    request.method = method;
    request.path = target.substr(0, target.find('?'));
    if (request.path != target) request.query = target.substr(request.path.size() + 1);
  }
  void answer(HttpResponse response) override {
    answering.set_value();
    if (gate.valid()) gate.wait();
    answered.set_value(std::move(response));
  }
  void begin(HttpResponse) override {}
  void send(const std::string&) override {}
  void end() override {}
  bool disconnected() const override { return false; }
  HttpResponse wait() { return answered.get_future().get(); }

  std::shared_future<void> gate;
  std::promise<void> answering;
  std::promise<HttpResponse> answered;
};

std::shared_ptr<TestExchange> ask(App& app, const std::string& target,
                                  const std::shared_future<void>& gate = {}) {
  const auto exchange = std::make_shared<TestExchange>("GET", target);
  exchange->gate = gate;
  app.handler().handle(exchange);
  return exchange;
}

TEST(App, WhatTakesLongWaitsForAWorkerAndHealthDoesNot) {
  const std::atomic<bool> stop{false};
  App app({.workers = 1, .queue = 1}, {}, stop);
  std::promise<void> gate;
  const auto open = gate.get_future().share();
  const auto first = ask(app, "/v1/models", open);
  first->answering.get_future().wait();
  const auto second = ask(app, "/v1/models");
  const auto refused = ask(app, "/v1/models")->wait();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.headers.at(0).first, "Retry-After");
  for (const char* path : {"/health", "/ready", "/metrics", "/"}) {
    EXPECT_EQ(ask(app, path)->wait().status, 200) << path;
  }
  gate.set_value();
  EXPECT_EQ(first->wait().status, 200);
  EXPECT_EQ(second->wait().status, 200);
}

TEST(App, RefusesWhatWaitsAtTheEnd) {
  const std::atomic<bool> stop{false};
  App app({.workers = 1}, {}, stop);
  std::promise<void> gate;
  const auto first = ask(app, "/v1/models", gate.get_future().share());
  first->answering.get_future().wait();
  const auto second = ask(app, "/v1/models");
  const auto end = std::async(std::launch::async, [&app] { app.end(); });
  while (!app.ended()) std::this_thread::yield();
  gate.set_value();
  EXPECT_EQ(first->wait().status, 200);
  EXPECT_EQ(second->wait().status, 503);
}

TEST(App, TakesTheParametersOfAPathInAnyOrderAndNoOthers) {
  const std::vector<std::string> known{"after", "limit"};
  using Values = std::map<std::string, std::string>;
  EXPECT_EQ(query_of("", known), Values());
  EXPECT_EQ(query_of("limit=5&after=a%2Db+c", known), (Values{{"after", "a-b c"}, {"limit", "5"}}));
  EXPECT_EQ(query_of("&after&limit==%4", known), (Values{{"after", ""}, {"limit", "=%4"}}));
  for (const char* query : {"limits=5", "limit=5&x=", "limit=1&limit=1", "=5"}) {
    EXPECT_THROW(query_of(query, known), ApiError) << query;
  }
  const std::atomic<bool> stop{false};
  App app({}, {}, stop);
  EXPECT_EQ(ask(app, "/v1/models?x=1")->wait().status, 400);
  EXPECT_EQ(ask(app, "/?x=1")->wait().status, 200);
}

TEST(Access, ComparesWholeSecrets) {
  EXPECT_TRUE(same_secret("Bearer k", "Bearer k"));
  EXPECT_TRUE(same_secret("", ""));
  for (const char* other : {"", "B", "Bearer ", "Bearer K", "Bearer kk", "bearer k"}) {
    EXPECT_FALSE(same_secret(other, "Bearer k")) << other;
  }
}

// A page of another site that had its name resolved to this machine shows that name.
TEST(Access, TakesAddressesAndConfiguredNames) {
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
