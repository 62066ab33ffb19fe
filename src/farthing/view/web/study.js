// The page of a study. The address holds what is shown: tab, filter, sort, selected trials, zoom.
"use strict";

// source: stamp() -> text; figures(tab) -> {figures, note}; trial, why, log (number); outputs() ->
// [{number, output}]; settings() -> [{head, rows}].
function studyPage(source) {
  const place = (id) => document.getElementById(id);
  const trials = new Trials();
  let facts = null;
  let forecast = null;
  let rows = []; // the trials that the filter keeps, in the order of the table
  let kept = null; // the same as a set; null: all

  // ── the address ──────────────────────────────────────────────────────────────────────────

  const read = () => {
    const query = new URLSearchParams(location.search);
    const numbers = (name) => (query.get(name) || "").split(",").filter((part) => /^\d{1,9}$/.test(part)).map(Number);
    const box = (query.get("zoom") || "").split(",").map(Number);
    return {
      tab: query.get("tab") in tabs.NAMES ? query.get("tab") : "trials",
      filter: query.get("filter") || "", sort: query.get("sort") || "-trial",
      trial: numbers("trial")[0] ?? null, compare: numbers("compare").slice(0, 4),
      y: ["log", "linear"].includes(query.get("y")) ? query.get("y") : "",
      hide: (query.get("hide") || "").split("\n").filter(Boolean), x: query.get("x") || "",
      zoom: box.length === 4 && box.every(Number.isFinite) && box[0] < box[1] && box[2] < box[3] ? { x: box.slice(0, 2), y: box.slice(2) } : null,
    };
  };
  let view = read();

  function address(changes) {
    const next = { ...view, ...changes };
    const query = new URLSearchParams(location.search);
    const set = (name, text, usual) => (text === usual ? query.delete(name) : query.set(name, text));
    set("tab", next.tab, "trials");
    set("filter", next.filter, "");
    set("sort", next.sort, "-trial");
    set("trial", next.trial === null ? "" : String(next.trial), "");
    set("compare", next.compare.join(","), "");
    set("hide", next.hide.join("\n"), "");
    set("x", next.x, "");
    set("y", next.y, "");
    set("zoom", next.zoom ? [...next.zoom.x, ...next.zoom.y].map((value) => Number(value.toPrecision(7))).join(",") : "", "");
    return `?${query}`;
  }

  function go(changes, { push = false } = {}) {
    const where = address(changes);
    view = { ...view, ...changes };
    if (where !== location.search) history[push ? "pushState" : "replaceState"](null, "", where);
    render();
  }
  addEventListener("popstate", () => { view = read(); box.value = view.filter; render(); if (main) main.zoom(view.zoom, true); });

  const choose = { to: (row) => go({ trial: row }, { push: true }), link: (row) => address({ trial: row }) };

  // ── the main chart ───────────────────────────────────────────────────────────────────────

  const keys = () => ["trial", "spent", ...trials.shown.map((column) => column.key)];
  const resources = () => [...new Set([facts.resource, ...facts.accounts.map((each) => each.resource), "trials"])];
  const resource = () => (resources().includes(view.x) ? view.x : facts.resource);
  let main = null;
  let legend = null;
  const tools = element("div", { class: "tools", role: "group", "aria-label": "chart" });
  const mode = (name, label, on) => element("button", {
    type: "button", "aria-pressed": on ? "true" : "false",
    onclick: (event) => {
      for (const each of tools.querySelectorAll("[data-mode]")) each.setAttribute("aria-pressed", each === event.currentTarget ? "true" : "false");
      main?.brush(name === "select");
    }, "data-mode": name, title: name === "zoom" ? "Drag to zoom; double-click shows all" : "Drag to filter the table by what is inside",
  }, label);
  const unit = element("select", { "aria-label": "horizontal axis", onchange: (event) => go({ x: event.target.value, zoom: null }) });
  const logarithmic = element("button", {
    type: "button", title: "Show the values on a logarithmic axis",
    onclick: (event) => go({ y: event.currentTarget.getAttribute("aria-pressed") === "true" ? "linear" : "log", zoom: null }),
  }, "Log");
  tools.append(mode("zoom", "Zoom", true), mode("select", "Select", false),
    element("button", { type: "button", class: "quiet", onclick: () => { main?.zoom(null); } }, "Show all"), logarithmic, unit);

  function brush({ x, y }) {
    let text = view.filter;
    if (x) text = filter.between(text, keys(), "spent", [Math.max(x[0], 0), x[1]]);
    if (y) text = filter.between(text, keys(), "value", y);
    setFilter(text);
  }

  function showCurve(force) {
    const spot = place("curve");
    const found = trials.count ? curve.panel(trials, facts, resource(), view.y) : null;
    const content = found ? `${trials.version} ${resource()} ${view.y}` : "none";
    if (!force && spot.content === content) { main?.redraw(); return; }
    spot.content = content;
    if (!found) {
      main?.remove();
      main = null;
      spot.replaceChildren(curve.nothing(facts));
      return;
    }
    const options = resources().map((name) => element("option", { value: name, selected: name === resource() }, name === "trials" ? "against trials" : `against ${name}`));
    if (unit.dataset.names !== resources().join()) { unit.dataset.names = resources().join(); unit.replaceChildren(...options); }
    unit.value = resource();
    logarithmic.hidden = !found.y.positive;
    logarithmic.setAttribute("aria-pressed", found.y.log ? "true" : "false");
    if (main) {
      main.update(found);
      legend.replaceWith(legend = figure.legend(main, found.layers));
      return;
    }
    spot.replaceChildren(element("div", { class: "line" }, element("h2", {}, "Best value against cost"), tools));
    main = chart.draw(spot, found, {
      height: innerWidth < 600 ? 260 : 340, describe: "Best value against cost. Each point is a trial. Arrow keys go from trial to trial, Enter opens one.",
      hover: (row) => trial.hover(trials, row), choose: choose.to, brush, zoomed: (zoom) => go({ zoom }),
      faded: (row) => kept !== null && !kept.has(row),
    });
    legend = figure.legend(main, found.layers);
    main.holder.before(legend);
    if (view.zoom) main.zoom(view.zoom, true);
  }

  // ── the table of trials ──────────────────────────────────────────────────────────────────

  const box = element("input", { type: "search", id: "filter", placeholder: "filter, such as: state=done value<0.3", "aria-label": "filter of the trials", autocomplete: "off", spellcheck: "false" });
  box.value = view.filter;
  let typing = 0;
  box.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(() => go({ filter: box.value }), 120); });
  function setFilter(text) { box.value = text; go({ filter: text }); grid.top(); }

  const found = element("span", { class: "note", role: "status", id: "found" });
  const menu = element("details", { class: "menu" }, element("summary", {}, "Columns"), element("div", {}));
  const compared = element("div", { id: "compared" });
  const trialsTab = element("div", {}, element("div", { class: "line filters" }, box, found, menu), compared);
  const grid = table.make(trialsTab, {
    cell: (column, row) => (column.key === "spent" ? format.amount(resource() === "trials" ? "cost" : resource(), column.values[row]) : trial.shown(column, row)),
    choose: choose.to, link: choose.link,
    marked: (row) => view.compare.includes(row),
    none: () => (trials.count ? "No trial matches the filter." : "No trial has started yet."),
    mark: (row) => go({ compare: view.compare.includes(row) ? view.compare.filter((each) => each !== row) : [...view.compare, row].slice(-4) }),
    isBest: (row) => row === facts.best, isChosen: (row) => row === view.trial,
    sort: (key) => {
      const first = sortOf();
      const down = first.key === key ? !first.down : key === "value" && facts.direction === "maximize";
      go({ sort: (down ? "-" : "") + key });
      grid.top();
    },
  });

  const sortOf = () => ({ key: view.sort.replace(/^-/, ""), down: view.sort.startsWith("-") });
  const spentColumn = () => {
    const account = facts.accounts.find((each) => each.resource === resource());
    return { key: "spent", kind: "fact", values: trials.spending(resource(), account ? account.spent : 0).end };
  };
  const numbers = () => Array.from({ length: trials.count }, (_, row) => row);
  const columnOf = (key) => (key === "trial" ? { values: numbers() } : key === "spent" ? spentColumn() : trials.columns.get(key));

  function select() {
    const terms = filter.parse(view.filter, keys());
    const texts = trials.shown.filter((column) => column.isText).map((column) => column.values);
    const wrong = terms.find((term) => term.error);
    rows = terms.length ? filter.rows(terms, trials.count, (key) => columnOf(key).values, texts) : numbers();
    kept = terms.length && rows.length < trials.count ? new Set(rows) : null;
    const { key, down } = sortOf();
    if (key === "trial") { if (down) rows.reverse(); } else if (columnOf(key)) rows = table.sorted(rows, columnOf(key).values, columnOf(key).isText, down);
    found.textContent = wrong ? `Not applied: ${wrong.error}.` : kept ? `${format.count(rows.length)} of ${format.count(trials.count)} trials` : `${format.count(trials.count)} trials`;
    found.classList.toggle("wrong", Boolean(wrong));
  }

  function showTable() {
    const usual = (column) => !(["worker", "origin"].includes(column.key));
    const all = [...trials.shown];
    all.splice(all.findIndex((column) => column.kind === "param"), 0, spentColumn());
    const isShown = (column) => view.hide.includes(column.key) !== usual(column);
    const labels = menu.lastChild;
    const names = JSON.stringify([all.map((column) => column.key), view.hide]);
    show(labels, names, all.map((column) => {
      const check = element("input", { type: "checkbox", onchange: () => go({ hide: view.hide.includes(column.key) ? view.hide.filter((key) => key !== column.key) : [...view.hide, column.key] }) });
      check.checked = isShown(column);
      return element("label", {}, check, column.key);
    }));
    grid.show(rows, all.filter((column) => isShown(column) && (column.kind !== "hidden")), sortOf());
    const side = view.compare.filter((row) => row < trials.count);
    show(compared, JSON.stringify([side, trials.version]), side.length ? trial.compared(trials, side, (row) => go({ compare: view.compare.filter((each) => each !== row) })) : null);
  }

  // ── tabs ─────────────────────────────────────────────────────────────────────────────────

  const bar = place("tabs");
  for (const [name, label] of Object.entries(tabs.NAMES)) {
    bar.append(element("button", { type: "button", role: "tab", id: `tab-${name}`, "data-tab": name, "aria-controls": "tab", onclick: () => go({ tab: name }, { push: true }) }, label));
  }
  bar.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const names = Object.keys(tabs.NAMES);
    const next = names[(names.indexOf(view.tab) + step + names.length) % names.length];
    go({ tab: next }, { push: true });
    place(`tab-${next}`).focus();
  });

  const panels = { trials: trialsTab };
  for (const name of Object.keys(tabs.NAMES)) {
    panels[name] = panels[name] || element("div", {});
    if (name !== "trials") panels[name].facts = panels[name].appendChild(element("div", {}));
    if (name !== "trials") panels[name].figures = panels[name].appendChild(element("div", { class: "figures" }));
  }
  const lines = parallel.make(panels.parameters.facts, {
    sign: () => (facts.direction === "minimize" ? 1 : -1),
    brush: (key, bounds) => {
      if (typeof bounds !== "string") { setFilter(filter.between(view.filter, keys(), key, bounds)); return; }
      const terms = filter.parse(view.filter, keys()).filter((term) => !term.error && term.key !== key);
      setFilter(filter.write([...terms, { key, operator: "=", value: bounds }]));
    },
  });

  async function showTab() {
    for (const each of bar.children) {
      const isOpen = each.dataset.tab === view.tab;
      each.setAttribute("aria-selected", isOpen ? "true" : "false");
      each.tabIndex = isOpen ? 0 : -1;
      if (isOpen && (each.offsetLeft < bar.scrollLeft || each.offsetLeft + each.offsetWidth > bar.scrollLeft + bar.clientWidth)) bar.scrollLeft = each.offsetLeft - 16; // on a phone
    }
    const panel = panels[view.tab];
    const spot = place("tab");
    spot.setAttribute("aria-labelledby", `tab-${view.tab}`);
    if (spot.firstChild !== panel) spot.replaceChildren(panel);
    if (view.tab === "trials") showTable();
    if (view.tab === "parameters") lines.show(trials, kept);
    if (view.tab === "running") {
      const none = element("p", { class: "empty" }, "No trial is running.");
      show(panel.facts, JSON.stringify(facts.running), facts.running.length ? tabs.runningList(facts, { link: ({ trial: row }) => choose.link(row) }) : none);
      showOutputs(panel);
    }
    if (view.tab === "stopping") show(panel.facts, JSON.stringify([facts, forecast]), tabs.stopping(facts, forecast));
    if (view.tab === "settings") { if (!panel.facts.content) await showSettings(panel.facts); return; }
    if (view.tab !== "trials") await showFigures(view.tab);
  }

  // The last lines that each running trial has printed.
  async function showOutputs(panel) {
    const spot = panel.outputs || (panel.outputs = panel.insertBefore(element("div", { class: "outputs" }), panel.figures));
    try {
      const found = facts.running.length ? await source.outputs() : [];
      show(spot, JSON.stringify(found), found.map(({ number, output }) => element("section", { "data-output": number },
        element("h3", {}, `Output of trial ${number}`), element("pre", { class: "output" }, output))));
      for (const each of spot.querySelectorAll("pre")) each.scrollTop = each.scrollHeight; // the latest lines
    } catch (error) { show(spot, "", []); }
  }

  async function showSettings(spot) {
    const parts = await source.settings();
    spot.className = "settings";
    show(spot, JSON.stringify(parts), parts.map(({ head: words, rows: entries }) => rowsTable(words, entries)));
  }

  async function showFigures(tab) {
    const spot = panels[tab].figures;
    const stamp = source.stamp();
    if (spot.stamp === stamp || spot.loading) return;
    spot.loading = true;
    if (!spot.drawn) spot.replaceChildren(element("p", { class: "empty" }, "Loading …"));
    try {
      const { figures, note } = await source.figures(tab);
      spot.querySelectorAll(":scope > p").forEach((each) => each.remove());
      figure.gallery(spot, figures, {});
      if (note) spot.append(element("p", { class: "empty" }, note));
      spot.stamp = stamp;
    } catch (error) {
      if (!spot.drawn) spot.replaceChildren(element("p", { class: "empty" }, error.message));
    } finally { spot.loading = false; }
  }

  // ── all of it ────────────────────────────────────────────────────────────────────────────

  const first = head.make({ status: place("status"), figures: place("key-figures") }, choose);
  const aside = trial.make(place("trial"), source, {
    close: () => go({ trial: null }),
    step: (step) => { const at = rows.indexOf(view.trial); const next = rows[at + step]; if (next !== undefined) go({ trial: next }); },
    compare: (row) => go({ tab: "trials", compare: [...view.compare.filter((each) => each !== row), row].slice(-4) }),
  });
  addEventListener("keydown", (event) => {
    if (event.target.closest("input, select, textarea")) return;
    if (event.key === "Escape" && view.trial !== null) go({ trial: null });
    if (event.key === "/") { event.preventDefault(); go({ tab: "trials" }); box.focus(); }
  });

  function render() {
    if (!facts) return;
    first.show(facts, forecast, trials);
    select();
    showCurve(false);
    showTab();
    document.body.classList.toggle("with-trial", view.trial !== null);
    aside.show(view.trial);
  }

  return {
    // Takes an answer of the server: new facts and the trials that have changed.
    take(answer) {
      facts = answer.facts;
      forecast = answer.forecast;
      if (answer.trials) { trials.merge(answer.trials); trials.version = answer.version; }
      render();
      aside.refresh();
    },
    refresh() { aside.refresh(); if (facts) showTab(); },
    fail(message) {
      if (!facts) place("curve").replaceChildren(element("p", { class: "empty" }, message));
    },
  };
}
