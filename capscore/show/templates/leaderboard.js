"use strict";
const body = document.querySelector("#numbers tbody");
const rows = Array.from(body.rows);
const controls = Array.from(document.querySelectorAll("#filters select, #filters input"));
const shown = document.querySelector("#shown");

function value(name) {
  const control = document.querySelector(`#filters [name="${name}"]`);
  return control.type === "checkbox" ? control.checked : control.value;
}

function filter() {
  const words = value("text").toLowerCase().split(/\s+/).filter(Boolean);
  const most = Number(value("size")) || Infinity;
  let count = 0;
  for (const row of rows) {
    const fits =
      ["benchmark", "language", "metric", "licence"].every(
        (name) => !value(name) || row.dataset[name] === value(name)
      ) &&
      (!value("main") || row.dataset.main === "1") &&
      (most === Infinity || (row.dataset.size !== "" && Number(row.dataset.size) <= most)) &&
      words.every((word) => row.textContent.toLowerCase().includes(word));
    row.hidden = !fits;
    count += fits;
  }
  shown.textContent = `${count} of ${rows.length} numbers`;
}

function sort(heading) {
  const column = heading.cellIndex;
  const down = heading.getAttribute("aria-sort") === "ascending";
  const key = (row) => row.cells[column].dataset.sort ?? row.cells[column].textContent.trim();
  const numeric = heading.classList.contains("number");
  // what has no value comes last, whichever way
  const empty = (text) => text === "" || text === "–";
  const order = (a, b) => {
    const [x, y] = [key(a), key(b)];
    if (empty(x) || empty(y)) return empty(x) - empty(y);
    const found = numeric ? Number(x) - Number(y) : x.localeCompare(y);
    return down ? -found : found;
  };
  for (const other of heading.parentNode.cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", down ? "descending" : "ascending");
  body.append(...rows.sort(order));
}

for (const control of controls) {
  for (const event of ["input", "change"]) control.addEventListener(event, filter);
}
for (const heading of document.querySelectorAll("#numbers th")) {
  heading.querySelector("button").addEventListener("click", () => sort(heading));
}
filter();
