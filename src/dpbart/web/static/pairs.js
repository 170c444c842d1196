// Original and rewritten, side by side.

import { element } from "./dom.js";

const side = (name, text) => element("p", {}, element("span", { class: "said" }, name), text === "" ? "(empty)" : text);

export const pairs = (originals, texts) => texts.map((text, place) =>
  element("div", { class: "pair" }, side("Original", originals[place]), side("Rewritten", text)));
