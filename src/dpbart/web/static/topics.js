// What the output of a job says, by area or topic of the book: a bar and an interval for each that can be told from noise.

import { get, queryOf } from "./api.js";
import { drawn, element } from "./dom.js";

const MOST = 20; // lines in sight
const NAMES = { areas: "areas", topics: "topics", cells: "groups of topics" };

const percent = (share) => `${(100 * share).toFixed(1)}%`;

// A bar up to the estimate, and the interval as a line below it. The numbers next to it say the same.
function bar({ estimate, low, high }, most) {
  const at = (share) => (100 * Math.max(0, share)) / most;
  return drawn("svg", { viewBox: "0 0 100 8", preserveAspectRatio: "none", class: "share", "aria-hidden": "true", focusable: "false" },
    drawn("rect", { width: 100, height: 5, class: "away" }),
    drawn("rect", { width: at(estimate), height: 5, class: "there" }),
    drawn("rect", { x: at(low), y: 6.5, width: at(high) - at(low), height: 1.5, class: "interval" }));
}

const line = (share, parts, most) => element("tr", {},
  element("th", { scope: "row" }, share.name, parts === "topics" ? element("span", { class: "quiet" }, ` ${share.area}`) : "", bar(share, most)),
  element("td", { class: "number" }, percent(share.estimate)),
  element("td", { class: "number" }, `${percent(Math.max(0, share.low))} to ${percent(share.high)}`));

function table(shares, parts) {
  const most = Math.max(...shares.map((each) => each.high));
  const heads = [["Said about", null], ["Share", "number"], ["Interval", "number"]];
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Topics" }, element("table", {},
    element("thead", {}, element("tr", {}, ...heads.map(([words, kind]) => element("th", { scope: "col", class: kind }, words)))),
    element("tbody", {}, ...shares.map((each) => line(each, parts, most)))));
}

function answer({ groups: [{ shares }], parts, estimated, level }) {
  const told = shares.filter((each) => each.told_from_noise), name = NAMES[parts], lost = shares.length - told.length;
  const more = told.length > MOST ? ` ${told.length - MOST} more can be told from noise.` : "";
  const noise = lost === 0 ? "" : ` The share of ${lost.toLocaleString("en")} of ${shares.length.toLocaleString("en")} ${name} cannot be told from noise.`;
  return [
    told.length > 0 ? table(told.slice(0, MOST), parts) : "",
    element("p", {}, `${more}${noise}`.trim()),
    element("p", { class: "quiet" }, `A share is ${estimated}. All intervals hold together in ${percent(level).replace(".0", "")} of such files.`)];
}

// Ask for the topics of a job, and show them in its place: the areas first.
export async function showTopics(job, place) {
  const told = element("div", { "aria-live": "polite" });
  const by = element("select", { id: `by-${job.id}`, autocomplete: "off", onchange: () => count() },
    element("option", { value: "areas" }, "areas of the book"), element("option", { value: "topics" }, "topics of the book"));

  async function count() {
    const wanted = by.value;
    told.replaceChildren(element("p", { class: "quiet" }, "Counting."));
    const shown = await get(`/v1/jobs/${job.id}/topics?${queryOf({ areas: wanted === "areas" })}`)
      .then(answer, (error) => [element("p", {}, `No topics can be told: ${error.message}`)]);
    if (by.value === wanted) told.replaceChildren(...shown);
  }

  place.replaceChildren(
    element("div", { class: "field" }, element("label", { for: by.id }, "What the output says, by"), by), told);
  await count();
}
