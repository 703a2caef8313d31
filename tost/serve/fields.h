// The body of a request: JSON whose fields are taken one by one, with checks. Fields that are not
// taken are refused. Free of torch.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace tost {

class Fields {
 public:
  // Throws an ApiError unless `body` is a JSON object.
  explicit Fields(const std::string& body);

  bool has(const std::string& name) const;  // and is not null
  // The value, which may be null; absent is null.
  const nlohmann::json& take(const std::string& name);

  // All throw an ApiError that names the field.
  std::string text(const std::string& name, const std::string& otherwise);
  std::string needed_text(const std::string& name);
  bool flag(const std::string& name, bool otherwise);
  double number(const std::string& name, double otherwise, double low, double high);
  int64_t count(const std::string& name, int64_t otherwise, int64_t low, int64_t high);
  // One text or a list of texts.
  std::vector<std::string> texts(const std::string& name);

  // A field that other servers support and this one does not: allowed with the value that changes
  // nothing.
  void neutral(const std::string& name, const std::vector<nlohmann::json>& values);
  void ignore(const std::string& name) { known_.insert(name); }
  // Refuses fields that were not taken.
  void finish() const;

 private:
  [[noreturn]] void refuse(const std::string& name, const std::string& expected) const;

  nlohmann::json body_;
  std::set<std::string> known_;
};

}  // namespace tost
