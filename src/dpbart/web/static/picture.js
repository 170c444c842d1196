// Three small pictures of one budget. Colours come from the style sheet, so that they follow light and dark.

import { drawn, element } from "./dom.js";
import { said } from "./words.js";

const WIDTH = 100, HEIGHT = 44;
const MANY_BITS = 100; // at the right end of its bar

const canvas = (...children) =>
  drawn("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "xMinYMid", "aria-hidden": "true", focusable: "false" }, ...children);

const bar = (y, width, kind) => drawn("rect", { x: 0, y, width: Math.max(0, width), height: 12, rx: 2, class: kind });

function guesser(noise) {
  const right = WIDTH * noise.right_of_two;
  return canvas(
    bar(14, WIDTH, "away"), bar(14, right, noise.guarantee.private ? "there" : "open"),
    drawn("line", { x1: WIDTH / 2, x2: WIDTH / 2, y1: 9, y2: 31, class: "mark" }),
    drawn("text", { x: WIDTH / 2, y: 38, "text-anchor": "middle" }, "coin toss"),
    drawn("text", { x: WIDTH, y: 38, "text-anchor": "end" }, "always"),
  );
}

function bits(noise) {
  const most = noise.bits === null ? MANY_BITS : Math.min(noise.bits, MANY_BITS);
  // A square root, so that small budgets can be told apart.
  const at = (value) => WIDTH * Math.sqrt(value / MANY_BITS);
  const mark = (value) => drawn("text", { x: Math.min(at(value), WIDTH), y: 38, "text-anchor": value === MANY_BITS ? "end" : "middle" }, `${value}`);
  return canvas(bar(14, WIDTH, "away"), bar(14, at(most), noise.bits === null ? "open" : "there"), mark(1), mark(10), mark(30), mark(100));
}

function kept(noise) {
  const count = noise.kept_of_100 === null ? 0 : Math.round(noise.kept_of_100);
  const dots = Array.from({ length: 100 }, (_, place) =>
    drawn("circle", { cx: 2.5 + 5 * (place % 20), cy: 10 + 5.5 * Math.floor(place / 20), r: 1.9, class: place < count ? "there" : "away" }));
  return canvas(...dots);
}

const figureOf = (picture, title, words, name) =>
  element("figure", { "data-figure": name }, picture, element("figcaption", {}, element("b", {}, title), ` ${words}`));

export const pictures = (noise) => [
  figureOf(guesser(noise), "A guesser:", said(noise, "In words"), "guesser"),
  figureOf(bits(noise), "What gets through:", said(noise, "Channel"), "bits"),
  figureOf(kept(noise), "The texts:", said(noise, "Kept") || said(noise, "Noise scale"), "kept"),
];
