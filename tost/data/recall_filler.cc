#include "tost/data/recall_filler.h"

#include <array>

namespace tost {
namespace {

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

}  // namespace

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

const char* needle_key(int64_t i) {
  return kKeys[size_t(i)];
}

}  // namespace tost
