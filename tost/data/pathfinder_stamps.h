// The dashes and discs of Pathfinder as small pictures made beforehand: a dash starts at a whole
// pixel and points to one of few directions. Free of torch.
#pragma once

#include "tost/data/pathfinder.h"

namespace tost {

// A square of 2 reach + 1 pixels a side, its middle the pixel it is put on.
struct Stamp {
  int64_t reach = 0;
  std::vector<double> values;  // 0 ... 1

  double at(int64_t dy, int64_t dx) const {
    return values[static_cast<size_t>((dy + reach) * (2 * reach + 1) + dx + reach)];
  }
};

struct Dash {
  Stamp line;
  Stamp room;  // the line and the gap around it, which no other dash may enter
};

struct Step {
  int64_t dy = 0, dx = 0;
  bool operator==(const Step&) const = default;
};

struct Direction {
  double angle = 0;  // radians, x to the right and y down
  Dash dash;
  std::vector<Step> kernel;  // pixels that must be free for a dash to start here
  // The reference finds no place for directions whose kernel lies off the picture at a corner;
  // those that are left point up and to the left, which every released picture shows.
  bool usable = false;
};

struct PathfinderStamps {
  PathfinderStamps(const PathfinderRules& rules, int64_t gap);

  int64_t gap;
  std::vector<Direction> degrees;  // first dashes: -180 ... 179 degrees
  // Later dashes end on a circle around a pivot and lie back towards it.
  std::vector<Step> circle;    // in order of rows, then columns
  std::vector<double> angles;  // of the steps on the circle
  std::vector<Dash> dashes;    // from a step of the circle back to the pivot
  std::vector<Step> around;    // disc of radius `gap`
  Stamp marker;
};

// The whole pixel reached in this direction, rounded up.
Step reach_out(double angle, double distance);

}  // namespace tost
