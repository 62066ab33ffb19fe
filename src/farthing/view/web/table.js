// The table of trials. Only the rows in view are elements, so that 50,000 trials stay fluid.
"use strict";

const table = (() => {
  const ROW = 31; // pixels, as in style.css
  const BEYOND = 12; // rows above and below the view

  // Row numbers sorted by a column; rows without an entry are last.
  function sorted(rows, values, isText, down) {
    const sign = down ? -1 : 1;
    const missing = (entry) => entry === null || entry === undefined;
    const some = rows.filter((row) => !missing(values[row]));
    const none = rows.filter((row) => missing(values[row]));
    if (isText) {
      const texts = values.map((entry) => (missing(entry) ? "" : String(entry)));
      some.sort((a, b) => (texts[a] < texts[b] ? -sign : texts[a] > texts[b] ? sign : a - b));
    } else some.sort((a, b) => sign * (values[a] - values[b]) || a - b);
    return [...some, ...none];
  }

  // options: cell(column, row) -> text; choose(row); mark(row); sort(key); none() -> text instead of
  // rows.
  function make(place, options) {
    const head = element("tr", {});
    const above = element("tr", { "aria-hidden": "true" }, element("td", { colspan: "99" }));
    const below = element("tr", { "aria-hidden": "true" }, element("td", { colspan: "99" }));
    const body = element("tbody", {});
    const whole = element("table", { class: "trials" }, element("thead", {}, head), body);
    const scroller = element("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": "trials" }, whole);
    place.append(scroller);
    let rows = [];
    let columns = [];
    let order = { key: "", down: false };
    let drawn = "";

    function header() {
      head.replaceChildren(
        element("th", { class: "check" }, element("span", { class: "unseen" }, "compare")),
        ...[{ key: "trial", kind: "fact" }, ...columns].map((column) => {
          const isSorted = order.key === column.key;
          const arrow = isSorted ? (order.down ? " ↓" : " ↑") : "";
          const button = element("button", { type: "button", class: "sort", title: column.key, onclick: () => options.sort(column.key) }, column.label || column.key, arrow);
          return element("th", {
            scope: "col", class: column.isText ? `text ${column.key === "why" ? "long" : ""}` : "number",
            "aria-sort": isSorted ? (order.down ? "descending" : "ascending") : "none",
          }, button);
        }));
    }

    function line(row, index) {
      const box = element("input", { type: "checkbox", "aria-label": `compare trial ${row}` });
      box.checked = options.marked(row);
      box.addEventListener("change", () => options.mark(row));
      const link = element("a", { href: options.link(row), "data-row": row }, String(row));
      return element("tr", {
        "aria-rowindex": index + 2, "data-row": row,
        class: options.isBest(row) ? "best" : options.isChosen(row) ? "chosen" : null,
      },
      element("td", { class: "check" }, box), element("td", { class: "number" }, link),
      columns.map((column) => element("td", {
        class: column.key === "state" ? `text state ${column.values[row]}` : column.isText ? "text" : "number",
      }, options.cell(column, row))));
    }

    function paint(force) {
      const first = Math.max(Math.floor(scroller.scrollTop / ROW) - BEYOND, 0);
      const count = Math.ceil(scroller.clientHeight / ROW) + 2 * BEYOND;
      const last = Math.min(first + count, rows.length);
      const now = `${first} ${last}`;
      if (!force && now === drawn) return;
      drawn = now;
      above.firstChild.style.height = `${first * ROW}px`;
      below.firstChild.style.height = `${(rows.length - last) * ROW}px`;
      const lines = [];
      for (let i = first; i < last; i += 1) lines.push(line(rows[i], i));
      if (!rows.length) lines.push(element("tr", {}, element("td", { colspan: "99", class: "empty" }, options.none())));
      const focused = body.contains(document.activeElement) ? document.activeElement.dataset.row : null;
      body.replaceChildren(above, ...lines, below);
      if (focused) body.querySelector(`a[data-row="${focused}"]`)?.focus({ preventScroll: true });
    }

    scroller.addEventListener("scroll", () => paint(false), { passive: true });
    new ResizeObserver(() => paint(false)).observe(scroller);
    body.addEventListener("click", (event) => {
      const link = event.target.closest("a[data-row]");
      const row = event.target.closest("tr[data-row]");
      if (event.ctrlKey || event.metaKey || !row || event.target.closest("input")) return;
      if (link) event.preventDefault();
      if (!String(getSelection())) options.choose(Number(row.dataset.row));
    });

    return {
      show(nextRows, nextColumns, nextOrder) {
        const names = (list) => list.map((column) => column.key).join("\n");
        const isNew = names(nextColumns) !== names(columns) || nextOrder.key !== order.key || nextOrder.down !== order.down;
        [rows, columns, order] = [nextRows, nextColumns, nextOrder];
        whole.setAttribute("aria-rowcount", rows.length + 1);
        if (isNew) header();
        paint(true);
      },
      top() { scroller.scrollTop = 0; },
    };
  }

  return { make, sorted };
})();
