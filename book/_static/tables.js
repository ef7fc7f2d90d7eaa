// A table that is wider than its place, or on a phone a column of single words, is set tighter; if
// that is not enough, its rows become cards. One that a click sorts, or that has the paper's numbers
// beside ours, keeps its heads and scrolls in a frame instead.
const KEPT = ".calibkit-sortable, .calibkit-paired";
const NARROW_PAGE = matchMedia("(max-width: 576px)");
const TALL = 130; // pixels, some five lines

const headings = (table) => {
  const names = [];
  for (const row of table.tHead?.rows ?? []) {
    let column = 0;
    for (const cell of row.cells) {
      const text = cell.textContent.trim();
      for (let i = 0; i < cell.colSpan; i++, column++) {
        names[column] ??= [];
        if (text && !names[column].includes(text)) names[column].push(text);
      }
    }
  }
  return names.map((parts) => parts.join(", "));
};

const label = (table) => {
  const names = headings(table);
  let above = { text: "", rows: 0 }; // a heading that stands for several rows
  for (const row of table.tBodies[0]?.rows ?? []) {
    if (above.rows > 0) row.dataset.head = above.text;
    let column = names.length - [...row.cells].reduce((sum, cell) => sum + cell.colSpan, 0);
    for (const cell of row.cells) {
      if (cell.rowSpan > 1) above = { text: cell.textContent.trim(), rows: cell.rowSpan };
      cell.dataset.label = names[column] ?? "";
      column += cell.colSpan;
    }
    above.rows -= 1;
  }
};

// A number keeps its interval: 1.2 ± 0.3 and [1.2, 3.4] do not wrap inside.
const keep = (table) => {
  const walker = document.createTreeWalker(table, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode;
    text.data = text.data
      .replaceAll("± ", "±\u00a0")
      .replace(/(\[[+−]?[\d.,]+,) (?=[+−]?[\d.,]+\])/g, "$1\u00a0");
  }
};

const frame = (table) => {
  const box = document.createElement("div");
  box.className = "calibkit-frame";
  box.tabIndex = 0;
  table.replaceWith(box);
  box.append(table);
};

const wordy = (table) =>
  NARROW_PAGE.matches &&
  [...(table.tBodies[0]?.rows ?? [])].some((r) => r.cells.length > 2 && r.offsetHeight > TALL);

const fit = (table) => {
  const places = ".calibkit-frame, .cell_output, .pst-scrollable-table-container";
  const place = table.closest(places) ?? table.parentElement;
  table.classList.remove("tight", "stacked");
  const sorted = table.matches(KEPT);
  for (const kind of sorted ? ["tight"] : ["tight", "stacked"]) {
    const wide = table.getBoundingClientRect().width > place.clientWidth + 1;
    if (!wide && (sorted || !wordy(table))) return;
    table.classList.remove("tight");
    table.classList.add(kind);
  }
};

document.addEventListener("DOMContentLoaded", () => {
  const tables = [...document.querySelectorAll(".bd-article table")].filter((t) => t.tHead);
  tables.filter((t) => t.matches(KEPT)).forEach(frame);
  tables.forEach(label);
  tables.forEach(keep);
  let timer;
  const all = () => tables.forEach(fit);
  addEventListener("resize", () => (clearTimeout(timer), (timer = setTimeout(all, 150))));
  all();
  addEventListener("load", all); // fonts and figures are there
  document.addEventListener("toggle", all, true); // what was folded had no width
});
