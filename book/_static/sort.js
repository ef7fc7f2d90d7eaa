// A click on a column's head sorts a table of class "calibkit-sortable"; another click turns it round.
document.addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll("table.calibkit-sortable")) {
    table.querySelectorAll("thead tr:last-child th").forEach((head, column) => {
      const button = document.createElement("button");
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        table.querySelectorAll("th[aria-sort]").forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const value = (row) => row.cells[column].textContent.trim();
        const body = table.tBodies[0];
        const rows = [...body.rows].sort((a, b) => {
          const [x, y] = [value(a), value(b)];
          const [p, q] = [x, y].map((text) => parseFloat(text.replace("−", "-").replace(",", "")));
          if (isNaN(p) !== isNaN(q)) return isNaN(p) ? 1 : -1; // what has no number comes last
          const order = isNaN(p) ? x.localeCompare(y) : p - q;
          return up ? order : -order;
        });
        body.append(...rows);
      });
    });
  }
});
