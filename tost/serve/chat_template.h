// Turns a conversation into a text by a JSON file, because a base model knows no roles. Free of
// torch.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace tost {

// {"user": "User: {content}\n", "assistant": "Bot: {content}\n", "reply": "Bot:", "stop":
// ["\nUser:"]} and any other roles; "{content}" occurs once in each.
struct ChatTemplate {
  std::map<std::string, std::string> roles;
  std::string reply;              // the text that the model continues
  std::vector<std::string> stop;  // further strings that end a reply

  // A message in the form of its role. Throws an ApiError for a role that the template lacks.
  std::string message(const std::string& role, const std::string& content) const;
};

// Parses a template. Throws a usage Error naming `where`.
ChatTemplate chat_template_from(const std::string& text, const std::string& where);

}  // namespace tost
