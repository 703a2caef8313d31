#include "tost/data/pathfinder_dataset.h"

#include "tost/base/error.h"
#include "tost/data/split_stream.h"

namespace tost {
const std::vector<std::string>& pathfinder_classes() {
  static const std::vector<std::string> classes = {"separate", "connected"};
  return classes;
}

GeneratedPathfinder::GeneratedPathfinder(const PathfinderRules& rules, uint64_t seed,
                                         const std::string& split, int64_t size)
    : artist_(rules), seed_(seed), split_(split), size_(size) {}

const std::vector<std::string>& GeneratedPathfinder::classes() const {
  return pathfinder_classes();
}

Random GeneratedPathfinder::random(int64_t i) const {
  return Random(seed_, split_stream(split_), static_cast<uint64_t>(i));
}

int64_t GeneratedPathfinder::label(int64_t i) const {
  return PathfinderArtist::label(random(i));
}

Image GeneratedPathfinder::image(int64_t i) const {
  return artist_.draw(random(i)).image;
}

std::string GeneratedPathfinder::name(int64_t i) const {
  return cat("pathfinder/", split_, "/", i);
}

}  // namespace tost
