// Bodies of requests to the server: every kind of field, chat templates, and the errors they end
// in.
#include "fuzz/targets.h"
#include "tost/io/parse_json.h"
#include "tost/serve/fields.h"

namespace tost::fuzz {
namespace {

void try_fields(const std::string& body) {
  Fields fields(body);
  fields.text("model", "none");
  fields.flag("stream", false);
  const double number = fields.number("temperature", 1, 0, 2);
  require(number >= 0 && number <= 2, "a number within its range");
  const int64_t count = fields.count("n", 1, 1, 16);
  require(count >= 1 && count <= 16, "an integer within its range");
  fields.texts("stop");
  fields.take("prompt");
  fields.neutral("echo", {false});
  fields.ignore("user");
  fields.finish();
}

void try_template(const std::string& text) {
  const auto form = chat_template_from(text, "fuzz");
  for (const auto& [role, unused] : form.roles) {
    require(form.message(role, "words").find("words") != std::string::npos, "content is in it");
  }
  form.message("nobody", "");
}

}  // namespace

void try_request(std::string_view input) {
  const unsigned choice = take_choice(input);
  const std::string text(input);
  try {
    choice % 2 == 0 ? try_fields(text) : try_template(text);
  } catch (const Error&) {
  } catch (const ApiError& error) {
    const auto body = parse_json(error_response(error).body, "the error");
    require(error.status == 400 && body["error"]["message"].is_string(), "an error is an object");
  }
}

}  // namespace tost::fuzz
