// One trial: its facts, why it was chosen, its output; and two trials side by side.
"use strict";

const trial = (() => {
  const shown = (column, row) => {
    const entry = column.values[row];
    return column.resource ? format.amount(column.resource, entry) : format.number(entry);
  };

  // What the pointer shows over a trial: all parameters, the costs, and why it was chosen.
  function hover(trials, row) {
    const value = trials.at("value", row);
    const lines = [];
    for (const column of trials.of("param")) if (column.values[row] !== null) lines.push([column.key, shown(column, row)]);
    for (const column of trials.of("metric")) if (column.values[row] !== null) lines.push([column.key, shown(column, row)]);
    for (const column of trials.of("cost")) {
      const expected = trials.at(`expected.${column.resource}`, row);
      const predicted = expected === null ? "" : `, ${format.amount(column.resource, expected)} predicted`;
      if (column.values[row] !== null || predicted) lines.push([`cost (${column.resource})`, `${shown(column, row) || "none yet"}${predicted}`]);
    }
    return element("div", {},
      element("p", { class: "title" }, `trial ${row}`, element("span", { class: `state ${trials.at("state", row)}` }, trials.at("state", row)),
        value === null ? null : element("strong", {}, format.number(value))),
      element("dl", {}, lines.slice(0, 24).map(([name, text]) => [element("dt", {}, name), element("dd", {}, text)])),
      element("p", { class: "why" }, trials.at("why", row) || ""));
  }

  // Two or more trials side by side; rows that differ are marked.
  function compared(trials, rows, remove) {
    const head = ["", ...rows.map((row) => element("span", {}, `trial ${row} `, element("button", {
      type: "button", class: "quiet", "aria-label": `remove trial ${row}`, onclick: () => remove(row) }, "×")))];
    const lines = trials.shown.filter((column) => rows.some((row) => column.values[row] !== null)).map((column) => {
      const texts = rows.map((row) => shown(column, row));
      const differs = new Set(texts).size > 1;
      return element("tr", { class: differs ? "differs" : null }, element("th", { scope: "row" }, column.key), texts.map((text) => element("td", {}, text)));
    });
    return element("div", { class: "wide" }, element("table", { class: "compared" },
      element("thead", {}, element("tr", {}, head.map((cell) => element("th", { scope: "col" }, cell)))), element("tbody", {}, lines)));
  }

  const facts = (pairs) => rowsTable([], pairs.map(([name, text]) => [name, Array.isArray(text) ? text.join("\n") : format.number(text)]), { class: "facts" });

  // The panel of a trial. `source.trial(number)`, `.why(number)`, `.log(number)` load its parts.
  function make(place, source, options) {
    let number = null;
    let parts = {};

    async function load(name, spot, render) {
      const wanted = number;
      try {
        const found = await source[name](wanted);
        if (wanted === number) { const text = JSON.stringify(found); if (spot.content !== text) { spot.content = text; render(found); } }
      } catch (error) {
        if (wanted === number) spot.replaceChildren(element("p", { class: "empty" }, error.message));
      }
    }

    function facts_(found) {
      parts.facts.replaceChildren(facts(found.facts),
        element("h3", {}, "Parameters"), facts(found.params),
        ...(found.metrics.length ? [element("h3", {}, "Metrics"), facts(found.metrics)] : []),
        ...Object.entries(found.copies).map(([kind, text]) => element("details", {},
          element("summary", {}, kind), copyButton(text), element("pre", {}, text))));
    }

    function why(found) {
      parts.why.replaceChildren(facts(found.words));
      if (found.figure && !found.figure.empty) figure.draw(parts.why, found.figure, { height: 260 });
    }

    function log(found) {
      parts.log.replaceChildren(...[
        element("p", { class: found.latest ? null : "empty" }, found.latest || "This trial has reported no progress."),
        found.reports ? element("details", {}, element("summary", {}, "progress reports"), element("pre", {}, found.reports)) : null,
        found.error ? element("pre", { class: "error" }, found.error) : null,
        found.output ? element("pre", { class: "output" }, found.output) : null,
      ].filter(Boolean));
      if (found.figure && !found.figure.empty) figure.draw(parts.log, found.figure, { height: 240 });
    }

    function show(next) {
      if (next === number) return;
      number = next;
      place.hidden = number === null;
      if (number === null) { place.replaceChildren(); return; }
      parts = {};
      for (const name of ["facts", "why", "log"]) parts[name] = element("section", { "data-part": name }, element("p", { class: "empty" }, "Loading …"));
      const go = (step) => element("button", { type: "button", class: "quiet", "aria-label": step < 0 ? "previous trial" : "next trial", onclick: () => options.step(step) }, step < 0 ? "‹" : "›");
      place.replaceChildren(
        element("header", {}, element("h2", { tabindex: "-1" }, `Trial ${number}`), go(-1), go(1),
          element("button", { type: "button", class: "quiet", onclick: () => options.compare(number) }, "compare"),
          element("button", { type: "button", class: "quiet close", "aria-label": "close", onclick: options.close }, "×")),
        parts.facts, element("h3", {}, "Why it was suggested"), parts.why, element("h3", {}, "Reports and output"), parts.log);
      place.scrollTop = 0;
      refresh();
      load("why", parts.why, why);
    }

    function refresh() {
      if (number === null) return;
      load("trial", parts.facts, facts_);
      load("log", parts.log, log);
    }

    return { show, refresh, get number() { return number; } };
  }

  return { compared, facts, hover, make, shown };
})();
