// Parts of a page as drawings, for their PNG files.
#pragma once

#include <vector>

#include "tost/report/page.h"

namespace tost {

Drawing picture_panel(const Image& image, double width, bool smooth);
Drawing thumbs_panel(const ThumbGrid& grid);
Drawing colored_text_panel(const std::vector<ColoredText>& runs);

// The drawing with an empty margin on every side.
Drawing with_margin(Drawing drawing, double margin);

// How strongly the background of a run of text is coloured, so that text in the page's own colour
// stays legible on light and on dark ground.
double ground_opacity(double strength);

}  // namespace tost
