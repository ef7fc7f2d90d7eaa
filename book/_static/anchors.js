// A link to something folded away unfolds it; an anchor with capitals (#fmfp-figA) is found, too.
const arrive = () => {
  const name = decodeURIComponent(location.hash.slice(1));
  const target = document.getElementById(name) ?? document.getElementById(name.toLowerCase());
  if (!name || !target) return;
  for (let fold = target.closest("details"); fold; fold = fold.parentElement.closest("details")) {
    fold.open = true;
  }
  target.scrollIntoView();
};
addEventListener("hashchange", arrive);
addEventListener("load", arrive);

// From the disk a search may not read other pages: list what it finds, without extracts.
if (location.protocol === "file:" && typeof DOCUMENTATION_OPTIONS !== "undefined") {
  DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
}
