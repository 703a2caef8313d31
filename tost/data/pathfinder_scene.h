// A Pathfinder picture in the making: what is drawn, and where no other dash may go. Free of torch.
#pragma once

#include "tost/data/pathfinder_stamps.h"

namespace tost {

// The growing end of a contour.
struct Tip {
  Step pivot;                   // from which the next dash is found
  double angle = 0;             // of the last dash
  Step start;                   // where the contour begins, the place of its disc
  Step end;                     // where its last dash ends
  const Stamp* room = nullptr;  // of the last dash, not yet taken
};

class Scene {
 public:
  Scene(const PathfinderRules& rules, const PathfinderStamps& stamps);

  // A first dash out of what is taken and off the edge; `central`: on an empty picture, twice the
  // distance of both beginnings away from the edge. False where none was found.
  bool begin(bool central, double contrast, Random& random, Tip& tip);
  // A first dash at the rules' distance from where `first` begins.
  bool begin_beside(const Tip& first, double contrast, Random& random, Tip& tip);
  // One more dash. False where there is no room.
  bool extend(Tip& tip, double contrast, Random& random);
  void take(const Tip& tip);  // the room of its last dash
  void mark(const Step& at);  // with a disc
  bool nearly_full() const;   // less than 1 % is free
  void close_border(int64_t border);

  Image image() const;

 private:
  bool inside(const Step& at) const {
    return at.dy >= 0 && at.dx >= 0 && at.dy < side_ && at.dx < side_;
  }
  float taken_around(const Step& at) const;
  bool place_first(const Direction& direction, const Step& at, double contrast, Tip& tip);
  bool collides(const Stamp& room, const Step& at) const;
  bool any_place(const std::vector<Step>& kernel, Random& random, Step& at) const;
  bool any_central_place(const std::vector<Step>& kernel, Random& random, Step& at) const;

  const PathfinderRules* rules_;
  const PathfinderStamps* stamps_;
  int64_t side_;
  struct Drawn {
    const Stamp* stamp;
    Step at;
    double contrast;
  };
  std::vector<Drawn> drawn_;  // most scenes are discarded before anything needs drawing
  std::vector<float> taken_;
};

}  // namespace tost
