"use strict";
{
  const data = JSON.parse(document.querySelector("#rows-data").textContent);
  const list = document.querySelector("#cards");
  const cards = Array.from(list.children); // the n-th card shows data.rows[n]
  const texts = cards.map((card) => card.textContent.toLowerCase());
  const ticks = cards.map((card) => card.querySelector("input"));
  const controls = document.querySelector("#check-filters").elements;
  const status = document.querySelector("#check-status");
  const saves = document.querySelectorAll("[data-save]");
  let order = cards.map((card, index) => index);

  // a photo is decoded when its card comes near the screen
  const load = (image) => {
    image.src = data.photos[image.dataset.photo];
    watcher.unobserve(image);
  };
  const watcher = new IntersectionObserver((seen) => {
    for (const entry of seen) if (entry.isIntersecting) load(entry.target);
  }, { rootMargin: "800px" });
  const waiting = () => list.querySelectorAll("img:not([src])");
  for (const image of waiting()) watcher.observe(image);
  addEventListener("beforeprint", () => waiting().forEach(load));

  function count() {
    const shown = cards.filter((card) => !card.hidden).length;
    const ticked = ticks.filter((tick) => tick.checked).length;
    status.textContent = `${shown} of ${cards.length} rows shown, ${ticked} ticked`;
    for (const button of saves) button.disabled = !ticked;
  }

  function filter() {
    const words = controls.text.value.toLowerCase().split(/\s+/);
    const [language, reason] = [controls.language?.value, controls.reason?.value];
    cards.forEach((card, index) => {
      const row = data.rows[index];
      card.hidden = !(
        (!language || row.language === language)
        && (!reason || reason in row.reasons)
        && words.every((word) => texts[index].includes(word))
      );
    });
    count();
  }

  function sort() {
    const compare = new Intl.Collator(undefined, { numeric: true }).compare;
    const numbers = { rank: (row) => row.rank, score: (row) => row.worst_first };
    const by = controls.order.value;
    order.sort((a, b) => {
      const [x, y] = [data.rows[a], data.rows[b]];
      if (by === "file") return x.row - y.row;
      if (by === "name") return compare(x.image, y.image) || a - b;
      const [p, q] = [numbers[by](x), numbers[by](y)];
      // rows without a number come last
      return (p === null) - (q === null) || p - q || a - b;
    });
    list.append(...order.map((index) => cards[index]));
  }

  function tick(value) {
    ticks.forEach((box, index) => {
      if (!value || !cards[index].hidden) box.checked = value;
    });
    count();
  }

  // as capscore writes CSV: a text that a spreadsheet would run begins with an apostrophe
  function cell(value) {
    let text = String(value ?? "");
    if (typeof value === "string" && /^'*[=+\-@\t\r\n]/.test(text)) text = `'${text}`;
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  }

  function save(kind) {
    const rows = order.filter((index) => ticks[index].checked).map((index) => {
      const { worst_first, reasons, ...row } = data.rows[index];
      return { ...row, reasons: Object.values(reasons).join("; ") };
    });
    let lines = rows.map((row) => JSON.stringify(row));
    if (kind === "csv") {
      const names = Object.keys(rows[0]);
      lines = [names, ...rows.map((row) => names.map((name) => row[name]))].map((row) => row.map(cell).join(","));
    }
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([`${lines.join("\n")}\n`], { type: "text/plain" }));
    link.download = `ticked.${kind}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  }

  for (const control of controls) {
    control.addEventListener("input", () => {
      if (control.name === "order") sort();
      filter();
    });
  }
  document.querySelector("#check-filters").addEventListener("submit", (event) => event.preventDefault());
  list.addEventListener("change", count);
  document.querySelector("#tick-shown").addEventListener("click", () => tick(true));
  document.querySelector("#untick").addEventListener("click", () => tick(false));
  for (const button of saves) button.addEventListener("click", () => save(button.dataset.save));
  filter();
}
