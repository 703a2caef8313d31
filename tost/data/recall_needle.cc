// A needle in a haystack of bytes.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "tost/base/error.h"
#include "tost/base/file.h"
#include "tost/base/random.h"
#include "tost/base/text.h"
#include "tost/data/recall_source.h"

namespace tost {
namespace {

// Haystacks: sentences of a small grammar without digits, and the names of codes.

constexpr std::array kQualities{"old",   "quiet", "small", "heavy", "bright", "narrow",
                                "young", "tired", "clean", "round", "gentle", "distant"};
constexpr std::array kPeople{"baker",  "sailor",   "teacher", "farmer", "painter", "doctor",
                             "singer", "gardener", "miller",  "guard",  "writer",  "child"};
constexpr std::array kDeeds{"carried", "found", "painted", "sold",   "cleaned", "lost",
                            "mended",  "hid",   "bought",  "washed", "praised", "borrowed"};
constexpr std::array kThings{"lamp", "basket", "letter", "chair",   "bottle", "wheel",
                             "rope", "mirror", "hammer", "blanket", "kettle", "ladder"};
constexpr std::array kPlaces{"near the river",    "in the market",  "behind the church",
                             "on the bridge",     "after the rain", "before the feast",
                             "under the old oak", "at the harbour", "in the early morning",
                             "beside the road",   "late at night",  "by the garden wall"};
constexpr std::array kKeys{"amber",  "birch",  "cobalt", "delta",  "ember",   "falcon", "granite",
                           "hazel",  "indigo", "jasper", "kelp",   "lotus",   "maple",  "nectar",
                           "onyx",   "pepper", "quartz", "raven",  "saffron", "topaz",  "umber",
                           "violet", "walnut", "yarrow", "zephyr", "anchor",  "basalt", "cedar",
                           "dahlia", "eagle",  "fennel", "garnet"};

template <size_t N>
const char* pick(const std::array<const char*, N>& words, Random& random) {
  return words[size_t(random.below(int64_t(N)))];
}

// `length` bytes; the last sentence may be cut.
std::string filler_text(int64_t length, Random& random) {
  std::string text;
  text.reserve(size_t(length) + 128);
  while (int64_t(text.size()) < length) {
    for (const char* part : {"The ", pick(kQualities, random), " ", pick(kPeople, random), " ",
                             pick(kDeeds, random), " the ", pick(kQualities, random), " ",
                             pick(kThings, random), " ", pick(kPlaces, random), ". "}) {
      text += part;
    }
  }
  text.resize(size_t(length));
  return text;
}

int64_t needle_key_count() {
  return int64_t(kKeys.size());
}

// none of the words of filler_text()
const char* needle_key(int64_t i) {
  return kKeys[size_t(i)];
}

constexpr int64_t kDigits = 5, kByteVocab = 257;
constexpr char kBefore[] = "The code of ", kBetween[] = " is ", kBehind[] = ". ";
constexpr int64_t kMaxText = int64_t{4} << 30;

struct Needle {
  std::string key, code;
  int64_t at = 0;       // of the haystack
  int64_t code_at = 0;  // in the finished text

  std::string sentence() const { return cat(kBefore, key, kBetween, code, kBehind); }
  std::string question() const { return cat("\n", kBefore, key, kBetween, code); }
};

// The last beginning of a sentence, or else of a word, at or before `at`.
int64_t snap_back(const std::string& text, int64_t at) {
  if (at == 0) return 0;
  const size_t from = size_t(at);
  const size_t sentence = from >= 2 ? text.rfind(". ", from - 2) : std::string::npos;
  if (sentence != std::string::npos && from - sentence < 200) return int64_t(sentence) + 2;
  const size_t word = text.find_last_of(" \n\t", from - 1);
  return word == std::string::npos ? 0 : int64_t(word) + 1;
}

class NeedleSource : public RecallSource {
 public:
  explicit NeedleSource(const RecallSpec& spec) : spec_(spec) {
    if (spec.distractors < 0 || spec.distractors >= needle_key_count()) {
      fail_usage("distractors is ", spec.distractors, "; it must lie between 0 and ",
                 needle_key_count() - 1, ".");
    }
    if (spec.questions < 1 || spec.questions > spec.distractors + 1) {
      fail_usage("questions is ", spec.questions, " but there are ", spec.distractors + 1,
                 " needles to ask for (distractors + 1).");
    }
    if (!spec.text.empty()) text_ = read_file(spec.text, kMaxText);
  }

  int64_t vocab() const override { return kByteVocab; }

  void check(const RecallCase& size) const override {
    if (!(size.depth == -1 || (size.depth >= 0 && size.depth <= 1))) {
      fail_usage("A depth of ", size.depth,
                 " is impossible; it is a share of the haystack, 0 (begin) to 1 (end).");
    }
    const int64_t needles = spec_.distractors + 1;
    check_recall_length(size, longest_frame(),
                        cat(needles, needles == 1 ? " needle and " : " needles and ",
                            spec_.questions, spec_.questions == 1 ? " question" : " questions"));
    if (!spec_.text.empty() && int64_t(text_.size()) < size.length) {
      fail_data("'", spec_.text, "' has ", text_.size(), " bytes, too few for a haystack of ",
                size.length, "; give a longer text or shorter lengths.");
    }
  }

  RecallSample sample(const RecallCase& size, const std::string& split,
                      int64_t index) const override {
    check(size);
    Random random = recall_random(spec_.seed, split, index);
    std::vector<Needle> needles = draw_needles(random);
    const double depth = random.uniform();
    needles[0].at = 0;
    std::string tail;
    for (int64_t i = 0; i < spec_.questions; ++i) tail += needles[size_t(i)].question();
    int64_t filler = size.length + 1 - int64_t(tail.size());
    for (const Needle& needle : needles) filler -= int64_t(needle.sentence().size());
    // Drawn last but the haystack, so that its length decides nothing else.
    for (Needle& needle : needles) needle.at = int64_t(random.uniform() * double(filler + 1));
    const double share = size.depth >= 0 ? size.depth : depth;
    needles[0].at = int64_t(std::llround(share * double(filler)));
    return finish(with_needles(haystack(filler, random), needles) + tail, needles, size.length,
                  int64_t(tail.size()));
  }

 private:
  // Bytes of needles and questions at the longest key, one of which is predicted and not read.
  int64_t longest_frame() const {
    size_t longest = 0;
    for (int64_t i = 0; i < needle_key_count(); ++i) {
      longest = std::max(longest, std::string(needle_key(i)).size());
    }
    const Needle needle{.key = std::string(longest, 'x'), .code = std::string(kDigits, '0')};
    return (spec_.distractors + 1) * int64_t(needle.sentence().size()) +
           spec_.questions * int64_t(needle.question().size()) - 1;
  }

  std::vector<Needle> draw_needles(Random& random) const {
    std::vector<Needle> needles;
    for (const int32_t key : draw_distinct(spec_.distractors + 1, 0, needle_key_count(), random)) {
      Needle needle{.key = needle_key(key), .code = {}};
      for (int64_t i = 0; i < kDigits; ++i) needle.code += char('0' + random.below(10));
      needles.push_back(std::move(needle));
    }
    return needles;
  }

  std::string haystack(int64_t length, Random& random) const {
    if (spec_.text.empty()) return filler_text(length, random);
    const int64_t begin = random.below(int64_t(text_.size()) - length + 1);
    return text_.substr(size_t(begin), size_t(length));
  }

  // Puts every needle in and notes where its code came to stand.
  static std::string with_needles(const std::string& hay, std::vector<Needle>& needles) {
    std::vector<Needle*> order;
    for (Needle& needle : needles) {
      needle.at = snap_back(hay, needle.at);
      order.push_back(&needle);
    }
    std::stable_sort(order.begin(), order.end(),
                     [](const Needle* a, const Needle* b) { return a->at < b->at; });
    std::string text;
    int64_t done = 0;
    for (Needle* needle : order) {
      text.append(hay, size_t(done), size_t(needle->at - done));
      done = needle->at;
      needle->code_at = int64_t(text.size() + std::string(kBefore + needle->key).size()) +
                        int64_t(sizeof kBetween) - 1;
      text += needle->sentence();
    }
    return text + hay.substr(size_t(done));
  }

  RecallSample finish(const std::string& text, const std::vector<Needle>& needles, int64_t length,
                      int64_t tail) const {
    RecallSample sample;
    for (const char c : text.substr(0, size_t(length))) {
      sample.ids.push_back(static_cast<unsigned char>(c));
    }
    sample.targets.assign(size_t(length), -1);
    int64_t end = int64_t(text.size()) - tail;
    for (int64_t i = 0; i < spec_.questions; ++i) {
      const Needle& needle = needles[size_t(i)];
      end += int64_t(needle.question().size());
      for (int64_t digit = 0; digit < kDigits; ++digit) {
        const int64_t at = end - kDigits + digit - 1;
        sample.targets[size_t(at)] = needle.code[size_t(digit)];
        sample.distances.push_back(at - (needle.code_at + digit));
      }
    }
    return sample;
  }

  RecallSpec spec_;
  std::string text_;
};

}  // namespace

std::unique_ptr<RecallSource> make_needle_source(const RecallSpec& spec) {
  return std::make_unique<NeedleSource>(spec);
}

}  // namespace tost
