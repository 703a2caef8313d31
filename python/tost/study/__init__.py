"""Grids of training runs with seeds and statistics: `python -m tost.study FILE --out FOLDER`. Needs no torch."""

from .spec import StudyError, read_study, study_from_json
from .summary import MeanSpread, mean_spread, paired_difference

__all__ = ["MeanSpread", "StudyError", "mean_spread", "paired_difference", "read_study", "study_from_json"]
