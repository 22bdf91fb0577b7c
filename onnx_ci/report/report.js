// Sorting, searching, and reading treemaps with the pointer or the keyboard. The page says the same without it.
"use strict";
document.documentElement.classList.add("js");

const value = cell => {
  const data = cell.querySelector("data");
  return data ? Number(data.value) : cell.textContent.trim();
};
const order = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));

function sort(table, head) {
  const rows = [...table.tBodies[0].rows], index = head.cellIndex;
  const numbers = rows.some(row => row.cells[index].querySelector("data"));
  const first = numbers ? "descending" : "ascending", second = numbers ? "ascending" : "descending";
  const way = head.getAttribute("aria-sort") === first ? second : first;
  for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", way);
  const keyed = rows.map(row => [value(row.cells[index]), row]);
  keyed.sort(([a], [b]) => (a === "") - (b === "") || (way === "ascending" ? order(a, b) : order(b, a)));
  table.tBodies[0].append(...keyed.map(([, row]) => row));
}

for (const table of document.querySelectorAll("table")) {
  if (table.tBodies[0].rows.length < 2) continue;
  for (const head of table.tHead.rows[0].cells) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => sort(table, head));
    head.append(button);
  }
}

function search(wanted) {
  const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = text => words.every(word => text.toLowerCase().includes(word));
  for (const row of document.querySelectorAll("tbody tr")) row.hidden = !fits(row.textContent);
  for (const box of document.querySelectorAll("rect.box")) box.classList.toggle("faint", !fits(box.textContent));
  for (const model of document.querySelectorAll(".model")) {
    model.hidden = !fits(model.textContent);
  }
}

const place = document.getElementById("search");
if (place) {
  const field = document.createElement("input");
  let waiting = 0;
  field.type = "search";
  field.placeholder = "search: models, tensors, codes";
  field.setAttribute("aria-label", field.placeholder);
  field.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => search(field.value), 60);
  });
  place.append(field);
}

const KEYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const side = (box, name) => parseFloat(box.getAttribute(name));
const middle = box => [side(box, "x") + side(box, "width") / 2, side(box, "y") + side(box, "height") / 2];

function neighbour(boxes, from, [right, down]) {
  const [x, y] = middle(from);
  let best = from, least = Infinity;
  for (const box of boxes) {
    const [to, below] = middle(box);
    const along = (to - x) * right + (below - y) * down, aside = Math.abs((to - x) * down) + Math.abs((below - y) * right);
    if (along > 0.01 && along + 2 * aside < least) [best, least] = [box, along + 2 * aside];
  }
  return best;
}

for (const figure of document.querySelectorAll(".treemap")) {
  const told = figure.querySelector("output");
  for (const map of figure.querySelectorAll(".map")) {
    const boxes = [...map.querySelectorAll(".box")];
    let at = null;
    const show = box => {
      if (at) at.classList.remove("at");
      at = box;
      at.classList.add("at");
      told.textContent = at.textContent;
    };
    const follow = () => {
      if (at && at.dataset.link) location.hash = at.dataset.link;
    };
    map.setAttribute("tabindex", "0");
    map.addEventListener("focus", () => show(at || boxes[0]));
    map.addEventListener("pointerover", event => event.target.matches(".box") && show(event.target));
    map.addEventListener("click", follow);
    map.addEventListener("keydown", event => {
      if (event.key in KEYS) show(neighbour(boxes, at || boxes[0], KEYS[event.key]));
      else if (event.key === "Home") show(boxes[0]);
      else if (event.key === "End") show(boxes[boxes.length - 1]);
      else if (event.key === "Enter") follow();
      else return;
      event.preventDefault();
    });
  }
}

function unfold() {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (target && target.tagName === "DETAILS") target.open = true;
}
addEventListener("hashchange", unfold);
unfold();
