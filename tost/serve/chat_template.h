// Turns a conversation into text by a template, because a base model knows no roles. Free of torch.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace tost {

// {"user": "User: {content}\n", "assistant": "Bot: {content}\n", "reply": "Bot:", "stop":
// ["\nUser:"]} and further roles, each with "{content}" once.
struct ChatTemplate {
  std::map<std::string, std::string> roles;
  std::string reply;              // the text that the model continues
  std::vector<std::string> stop;  // further strings that end a reply

  // Formats a message by the template of its role. Throws an ApiError for an unknown role.
  std::string message(const std::string& role, const std::string& content) const;
};

// Parses a template. Reads a template; throws a usage Error that names `where`.
ChatTemplate chat_template_from(const std::string& text, const std::string& where);

}  // namespace tost
