// A padded batch of sequences as the engine reads it: without its padding, in groups of sequences
// that go through the network together, each group in tiles of rows. All of it follows from the
// lengths alone, not from the number of threads.
#pragma once

#include <cstdint>
#include <vector>

namespace tost {

struct SequenceItem {
  const int64_t* ids = nullptr;  // [tokens]
  int64_t tokens = 0;
  int64_t first = 0;  // its first row in its group
  int64_t rows = 0;   // its tokens, and the class token in front where there is one
};

// Items [first, first + count), whose rows lie one after the other.
struct SequenceGroup {
  int64_t first = 0, count = 0;
  int64_t rows = 0;
  int64_t longest = 0;  // most rows of an item
};

struct SequencePlan {
  std::vector<SequenceItem> items;  // in the order of the batch
  std::vector<SequenceGroup> groups;

  // Ids [batch, tokens] of row stride `stride`; lengths [batch] or null: `tokens` each. `extra`:
  // rows of an item beyond its tokens. A group has at most `group_rows` rows, or one item. Does not
  // allocate once it has seen a batch as large.
  struct Batch {
    const int64_t* ids = nullptr;
    int64_t stride = 0;
    int64_t batch = 0, tokens = 0;
    const int64_t* lengths = nullptr;
  };
  void cut(const Batch& batch, int64_t extra, int64_t group_rows);
};

// `rows` rows in tiles of `each`, the last one perhaps shorter: at most `most`, and where there are
// enough rows for tiles of about `least`, so many that they divide well among threads.
struct TileCut {
  static constexpr int64_t kLeast = 16;  // rows of all tiles but the last

  TileCut(int64_t rows, int64_t least, int64_t most);
  int64_t tiles, each;
};

}  // namespace tost
