#include "tost/io/bpe_write.h"

#include <nlohmann/json.hpp>
#include <string_view>
#include <unordered_map>

#include "tost/base/error.h"
#include "tost/io/bpe_alphabet.h"
#include "tost/io/parse_json.h"
#include "tost/io/tokenizers.h"

namespace tost {
namespace {

using Ids = std::unordered_map<std::string_view, size_t>;

// The parts that are left of `token` when neighbours are joined by every token before `id`, the
// lowest first.
std::vector<std::string_view> parts_before(std::string_view token, size_t id, const Ids& ids) {
  std::vector<std::string_view> parts;
  for (size_t i = 0; i < token.size(); ++i) parts.push_back(token.substr(i, 1));
  for (;;) {
    size_t best = id, at = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const std::string_view joined(parts[i].data(), parts[i].size() + parts[i + 1].size());
      const auto found = ids.find(joined);
      if (found != ids.end() && found->second < best) best = found->second, at = i;
    }
    if (best == id) return parts;
    parts[at] = {parts[at].data(), parts[at].size() + parts[at + 1].size()};
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

}  // namespace

BpeFiles write_bpe_files(const std::vector<std::string>& tokens) {
  const Gpt2Alphabet alphabet;
  Ids ids;
  for (size_t id = 0; id < tokens.size(); ++id) ids.emplace(tokens[id], id);
  nlohmann::ordered_json vocabulary = nlohmann::ordered_json::object();
  // Appended without look-up, which would be quadratic.
  auto& object = vocabulary.get_ref<nlohmann::ordered_json::object_t&>();
  BpeFiles files{"", "#version: 0.2\n"};
  for (size_t id = 0; id < tokens.size(); ++id) {
    object.emplace_back(alphabet.encode(tokens[id]), id);
    if (tokens[id].size() == 1) continue;
    const auto parts = parts_before(tokens[id], id, ids);
    if (parts.size() != 2) {
      fail_data("Token ", id, " of the vocabulary cannot be made by joining two before it.");
    }
    files.merges += alphabet.encode(parts[0]) + " " + alphabet.encode(parts[1]) + "\n";
  }
  object.emplace_back(kEndOfText, tokens.size());
  files.vocabulary = json_text(vocabulary);
  return files;
}

}  // namespace tost
