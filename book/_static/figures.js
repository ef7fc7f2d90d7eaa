// On a narrow screen a figure keeps the size at which its words can be read, and is swiped sideways.
const SCALE = 0.56; // screen pixels for a pixel of the picture: text of 8 points is 9 pixels high
const DRAWN = 0.85; // for a pixel of a drawing (.svg)
const NARROW = matchMedia("(max-width: 576px)");

const place = (image) => {
  let box = image.closest(".calibkit-swipe");
  const figure = image.closest("figure") ?? (box ?? image).parentElement;
  const drawn = image.matches(".schema");
  const own = (image.dataset.width ??= image.style.width); // of a drawing, on a wide screen
  const wanted = Math.round(drawn ? parseFloat(own) * DRAWN : image.naturalWidth * SCALE);
  const wide = NARROW.matches && figure.clientWidth > 0 && wanted > 1.1 * figure.clientWidth;
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
  NARROW.addEventListener("change", all);
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
