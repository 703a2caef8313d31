// Copying of a random string.
#include <algorithm>

#include "tost/base/error.h"
#include "tost/data/recall_source.h"

namespace tost {
namespace {

constexpr int32_t kBlank = 0, kRepeat = 1, kFirstSymbol = 2;

class CopyingSource : public RecallSource {
 public:
  explicit CopyingSource(const RecallSpec& spec) : spec_(spec) {
    if (spec.vocab <= kFirstSymbol || spec.vocab > kMaxRecallVocab) {
      fail_usage("vocab is ", spec.vocab, "; copying needs 3 to ", kMaxRecallVocab,
                 " tokens, two of which are the blank and the sign to repeat.");
    }
    if (spec.gap < 0 || spec.gap >= kMaxRecallLength) {
      fail_usage("gap is ", spec.gap, "; it must be at least 0 and below ", kMaxRecallLength, ".");
    }
  }

  int64_t vocab() const override { return spec_.vocab; }

  void check(const RecallCase& size) const override {
    check_recall_length(size, spec_.gap + 2,
                        spec_.gap == 0 ? "copying" : cat("copying over a gap of ", spec_.gap));
    if ((size.length - spec_.gap) % 2 != 0) {
      fail_usage("A length of ", size.length, " less a gap of ", spec_.gap,
                 " is odd; a string and its copy take an even number.");
    }
  }

  // The last symbol of the copy is predicted, not read: string, gap, sign and a string less one.
  RecallSample sample(const RecallCase& size, const std::string& split,
                      int64_t index) const override {
    check(size);
    Random random = recall_random(spec_.seed, split, index);
    const int64_t count = (size.length - spec_.gap) / 2, sign = count + spec_.gap;
    RecallSample sample;
    sample.ids.assign(size_t(size.length), kBlank);
    sample.targets.assign(size_t(size.length), -1);
    sample.distances.assign(size_t(count), sign);
    for (int64_t i = 0; i < count; ++i) {
      sample.ids[size_t(i)] = kFirstSymbol + int32_t(random.below(spec_.vocab - kFirstSymbol));
    }
    sample.ids[size_t(sign)] = kRepeat;
    for (int64_t i = 0; i < count; ++i) {
      sample.targets[size_t(sign + i)] = sample.ids[size_t(i)];
      if (i > 0) sample.ids[size_t(sign + i)] = sample.ids[size_t(i - 1)];
    }
    return sample;
  }

 private:
  RecallSpec spec_;
};

}  // namespace

std::unique_ptr<RecallSource> make_copying_source(const RecallSpec& spec) {
  return std::make_unique<CopyingSource>(spec);
}

}  // namespace tost
