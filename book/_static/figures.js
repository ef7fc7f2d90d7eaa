const NARROW = matchMedia("(max-width: 576px)");

// On a narrow screen the columns of a figure stand one below the other. The class of its image has, in
// thousandths, the windows of each strip: left, right, top, bottom (book/_ext/panels.py).
const DRAWN_AT = 0.69; // screen pixels for a pixel of the picture, as on a wide screen

const windowOf = (image, [left, right, top, bottom], scale) => {
  const [width, height] = [image.naturalWidth * scale, image.naturalHeight * scale];
  const pane = document.createElement("span");
  pane.style.width = `${((right - left) / 1000) * width}px`;
  pane.style.height = `${((bottom - top) / 1000) * height}px`;
  const part = new Image();
  [part.src, part.alt, part.className] = [image.src, "", "dark-light"];
  part.style.width = `${width}px`;
  part.style.transform = `translate(${(-left / 1000) * width}px, ${(-top / 1000) * height}px)`;
  pane.append(part);
  return pane;
};

const stack = (image, room) => {
  image.parentElement.querySelector(".calibkit-stack")?.remove();
  const name = [...image.classList].find((one) => one.startsWith("panels-"));
  const stacked = Boolean(name) && NARROW.matches && room > 0 && image.naturalWidth > 0;
  image.classList.toggle("calibkit-whole", stacked);
  if (!stacked) return false;
  const box = document.createElement("div");
  box.className = "calibkit-stack";
  box.setAttribute("role", "img");
  box.setAttribute("aria-label", image.alt);
  box.addEventListener("click", () => image.click());
  const strips = name.slice(7).split("-s-").map((code) => code.split("-").map(Number));
  const height = (strip) => strip[3] - strip[2];
  const tallest = Math.max(...strips.map(height));
  const width = (strip) => {
    const all = strip.filter((_, i) => i % 4 === 1).map((right, i) => right - strip[4 * i]);
    const share = height(strip) === tallest ? all.reduce((a, b) => a + b) : Math.max(...all);
    return (share / 1000) * image.naturalWidth * DRAWN_AT;
  };
  const widest = Math.max(...strips.filter((one) => height(one) === tallest).map(width));
  const place = widest < 0.64 * room ? (room - 8) / 2 : room; // two side by side
  for (const strip of strips) {
    const row = document.createElement("span");
    const fit = height(strip) === tallest ? place / widest : room / width(strip);
    const scale = DRAWN_AT * Math.min(1, fit);
    if (height(strip) < tallest) row.style.flexWrap = "wrap"; // a legend, by its entries
    for (let i = 0; i < strip.length; i += 4) {
      row.append(windowOf(image, strip.slice(i, i + 4), scale));
    }
    box.append(row);
  }
  image.after(box);
  return true;
};

// One of a single column keeps the size at which its words can be read, and is swiped sideways.
const SCALE = 0.56; // screen pixels for a pixel of the picture: text of 8 points is 9 pixels high

const place = (image) => {
  let box = image.closest(".calibkit-swipe");
  const figure = image.closest("figure") ?? (box ?? image).parentElement;
  if (stack(image, figure.clientWidth - 20)) return; // less what surrounds it
  const drawn = image.matches(".schema");
  // One narrower than the page is shown as it was drawn: 8 points are 8 points.
  const loaded = !drawn && image.naturalWidth > 0;
  const given = (image.dataset.width ??= image.style.width); // of a drawing, on a wide screen
  const own = loaded ? `${Math.round(image.naturalWidth * DRAWN_AT)}px` : given;
  const wanted = Math.round(image.naturalWidth * SCALE);
  const wide = !drawn && NARROW.matches && figure.clientWidth > 0 && wanted > 1.1 * figure.clientWidth;
  if (wide && !box) {
    box = document.createElement("div");
    box.className = "calibkit-swipe";
    box.tabIndex = 0; // arrow keys scroll it
    image.replaceWith(box);
    box.append(image);
  } else if (!wide && box) {
    box.replaceWith(image);
  }
  image.style.width = wide ? `${wanted}px` : own;
};

document.addEventListener("DOMContentLoaded", () => {
  const kinds = ".bd-article :is(.cell_output img, img.schema)";
  const all = () => document.querySelectorAll(kinds).forEach(place);
  let width = innerWidth;
  const turned = () => {
    if (innerWidth !== width) all(); // not where only the bar of addresses comes or goes
    width = innerWidth;
  };
  addEventListener("resize", turned);
  addEventListener("load", all);
  document.addEventListener("toggle", all, true); // what was folded had no width
  all();
});

// A click on a figure shows it as large as the window; another click, or Escape, closes it again.
document.addEventListener("DOMContentLoaded", () => {
  const shown = document.createElement("dialog");
  shown.className = "calibkit-large";
  shown.addEventListener("click", () => shown.close());
  const close = (event) => event.key === "Escape" && shown.close(); // the theme keeps the key
  addEventListener("keydown", close, true);
  document.body.append(shown);
  const open = (image) => {
    const large = new Image();
    [large.src, large.alt] = [image.src, image.alt];
    shown.replaceChildren(large);
    shown.setAttribute("aria-label", image.alt);
    shown.showModal();
  };
  for (const image of document.querySelectorAll(".bd-article figure img")) {
    if (image.closest("a")) continue; // leads elsewhere
    image.classList.add("calibkit-enlarges");
    image.tabIndex = 0;
    image.setAttribute("role", "button");
    image.addEventListener("click", () => open(image));
    image.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      open(image);
    });
  }
});
