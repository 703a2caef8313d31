#include "tost/serve/fields.h"

#include <gtest/gtest.h>

#include "tost/serve/metrics.h"

namespace tost {
namespace {

// The message of what `work` throws; empty where it throws nothing.
template <class Work>
std::string refusal(const Work& work) {
  try {
    work();
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status, 400);
    return error.message;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return {};
}

TEST(Fields, TakesWhatIsThere) {
  Fields fields(R"({"text": "a", "flag": true, "number": 0.5, "count": 7, "list": ["x", "y"],
                    "nothing": null})");
  EXPECT_EQ(fields.text("text", "b"), "a");
  EXPECT_EQ(fields.text("nothing", "b"), "b");
  EXPECT_EQ(fields.text("missing", "b"), "b");
  EXPECT_TRUE(fields.flag("flag", false));
  EXPECT_EQ(fields.number("number", 1, 0, 1), 0.5);
  EXPECT_EQ(fields.count("count", 1, 0, 7), 7);
  EXPECT_EQ(fields.texts("list"), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(refusal([&] { fields.finish(); }), "");
}

TEST(Fields, NamesTheFieldThatIsWrong) {
  const std::string body = R"({"text": 1, "flag": "yes", "number": 3, "count": 1.5, "list": [1],
                               "big": 18446744073709551615, "long": 1e400})";
  const auto expect_field = [](const std::string& message, const std::string& name) {
    EXPECT_NE(message.find("'" + name + "'"), std::string::npos) << message;
  };
  EXPECT_NE(refusal([&] { Fields f(body); }), "");  // 1e400 is not a number
  Fields f(body.substr(0, body.rfind(',')) + "}");
  expect_field(refusal([&] { f.text("text", ""); }), "text");
  expect_field(refusal([&] { f.flag("flag", true); }), "flag");
  expect_field(refusal([&] { f.number("number", 1, 0, 2); }), "number");
  expect_field(refusal([&] { f.count("count", 1, 0, 2); }), "count");
  expect_field(refusal([&] { f.count("big", 1, 0, INT64_MAX); }), "big");
  expect_field(refusal([&] { f.texts("list"); }), "list");
  expect_field(refusal([&] { f.needed_text("missing"); }), "missing");
  EXPECT_NE(refusal([] {
              Fields g(R"({"temprature": 1})");
              g.number("temperature", 1, 0, 2);
              g.finish();
            }).find("Did you mean 'temperature'?"),
            std::string::npos);
  EXPECT_NE(refusal([] {
              Fields g(R"({"tools": [1]})");
              g.neutral("tools", {});
            }),
            "");
}

TEST(Fields, RefusesWhatIsNoObject) {
  std::string deep(10'000, '[');
  for (const std::string& body :
       {std::string(), std::string("[]"), std::string("1"), deep, std::string(10'000, '{'),
        std::string("{\"a\": \"\xff\"}"), std::string("{\"a\": 1, \"a\": 2}"), std::string("{} x"),
        std::string("{\"a\": \"\0\"}", 10)}) {
    EXPECT_NE(refusal([&] { Fields fields(body); }), "") << body.substr(0, 40);
  }
}

TEST(ChatTemplate, PutsTheContentWhereItBelongs) {
  const auto form = chat_template_from(
      R"({"user": "U: {content}\n", "assistant": "A: {content}\n", "reply": "A:", "stop": ["\nU:"]})",
      "The template");
  EXPECT_EQ(form.message("user", "{content}"), "U: {content}\n");
  EXPECT_EQ(form.reply, "A:");
  EXPECT_EQ(form.stop, (std::vector<std::string>{"\nU:"}));
  EXPECT_NE(refusal([&] { form.message("system", "x"); }), "");
  for (const char* text :
       {"[]", "{}", R"({"user": 1})", R"({"user": "no place"})",
        R"({"user": "{content}{content}"})", R"({"user": "{content}", "stop": [1]})", "{"}) {
    EXPECT_NE(refusal([&] { chat_template_from(text, "The template"); }), "") << text;
  }
}

TEST(Metrics, AreInPrometheusForm) {
  Metrics metrics;
  metrics.add_request("/v1/completions", 200, 0.02);
  metrics.add_request("/v1/completions", 200, 200);
  metrics.new_tokens = 5;
  const auto text = metrics.text({{"tost_sessions", {"Stored sessions.", 3}}});
  for (const char* line :
       {"\ntost_requests_total{route=\"/v1/completions\",status=\"200\"} 2\n",
        "\n# TYPE tost_requests_total counter\n", "\ntost_new_tokens_total 5\n",
        "\ntost_sessions 3\n", "\ntost_request_seconds_bucket{le=\"0.01\"} 0\n",
        "\ntost_request_seconds_bucket{le=\"0.025\"} 1\n",
        "\ntost_request_seconds_bucket{le=\"60\"} 1\n",
        "\ntost_request_seconds_bucket{le=\"+Inf\"} 2\n", "\ntost_request_seconds_count 2\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  }
}

}  // namespace
}  // namespace tost
