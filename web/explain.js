// Opens the numbers of a report and shows what its kind of model has.
"use strict";

const report = JSON.parse($("numbers").textContent);
document.title = $("title").textContent = report.title || "Inside " + report.model;
$("main").replaceChildren();
report.kind === "vision" ? showVision(report) : showText(report);
