"use strict";
const table = document.querySelector("#numbers");
const body = table.tBodies[0];
const rows = Array.from(body.rows);
const words = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
const more = document.querySelector("#more");
let most = 200; // thousands of rows that are drawn at once make a page slow
const controls = Array.from(document.querySelectorAll("#filters select, #filters input"));
const shown = document.querySelector("#shown");

// what each control asks of a row
function fits(control, row, text) {
  const value = control.type === "checkbox" ? control.checked : control.value;
  const own = row.dataset[control.name];
  if (!value) return true;
  if (control.type === "search") return value.toLowerCase().split(/\s+/).every((word) => text.includes(word));
  if (control.type === "checkbox") return own === "1";
  if (control.name === "size") return own !== "" && Number(own) <= Number(value);
  return own === value;
}

function filter() {
  let count = 0;
  for (const row of rows) {
    const found = controls.every((control) => fits(control, row, words.get(row)));
    row.hidden = !found || count >= most;
    count += found;
  }
  more.hidden = count <= most;
  shown.textContent = `${count} of ${rows.length} ${table.dataset.unit}`;
}

function sort(heading) {
  const column = heading.cellIndex;
  const down = heading.getAttribute("aria-sort") === "ascending";
  const numeric = heading.classList.contains("number");
  const compare = new Intl.Collator(undefined, { numeric: true }).compare;
  const keys = new Map(rows.map((row) => {
    const cell = row.cells[column];
    return [row, cell.dataset.sort ?? cell.textContent.trim()];
  }));
  // what has no value comes last, whichever way
  const empty = (text) => text === "" || text === "–";
  const order = (a, b) => {
    const [x, y] = [keys.get(a), keys.get(b)];
    if (empty(x) || empty(y)) return empty(x) - empty(y);
    const found = numeric ? Number(x) - Number(y) : compare(x, y);
    return down ? -found : found;
  };
  for (const other of heading.parentNode.cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", down ? "descending" : "ascending");
  for (const row of rows.sort(order)) body.append(row);
  filter();
}

more.addEventListener("click", () => {
  most *= 4;
  filter();
});

for (const control of controls) {
  for (const event of ["input", "change"]) control.addEventListener(event, filter);
}
for (const heading of table.tHead.rows[0].cells) {
  heading.querySelector("button").addEventListener("click", () => sort(heading));
}
filter();
