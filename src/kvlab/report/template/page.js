"use strict";
// Makes each column of a table sortable. Without the script the tables are there all the same.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const value = (row, column) => row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    head.setAttribute("aria-sort", "none");
    if (body.rows.length && body.rows[0].cells[column].classList.contains("n")) head.classList.add("n");
    button.addEventListener("click", () => {
      const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      heads.forEach((other) => other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", sign === 1 ? "ascending" : "descending");
      const empty = (text) => text === "" || text === "–";
      const rows = [...body.rows].sort((a, b) => {
        const [x, y] = [value(a, column), value(b, column)];
        // What has no value stays below, whichever way the rest goes.
        if (empty(x) || empty(y)) return Number(empty(x)) - Number(empty(y));
        const [i, j] = [Number(x), Number(y)];
        return sign * (Number.isNaN(i) || Number.isNaN(j) ? x.localeCompare(y) : i - j);
      });
      body.append(...rows);
    });
  });
}
