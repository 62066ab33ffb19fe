// The list of studies: the best value of each as a small line, and several on one cost axis.
"use strict";

// source: comparison(names) -> figure; link(name) -> address; compared: the names of studies that
// are always compared; without it, the reader chooses them.
function studiesPage(source) {
  const place = document.getElementById("studies");
  const compared = document.getElementById("comparison");
  const chosen = () => source.compared || new URLSearchParams(location.search).getAll("compare");
  let studies = [];

  // Coarse, so that a list without news does not change every second.
  function ago(seconds) {
    for (const [unit, size] of [["d", 86400], ["h", 3600], ["m", 60]]) if (seconds >= size) return `${Math.floor(seconds / size)} ${unit}`;
    return "less than 1 m";
  }

  function sparkline({ x, y }, isBetterLow) {
    if (x.length < 2) return element("span", { class: "note" }, "–");
    const [width, height] = [120, 28];
    const ns = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(ns, "svg");
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("class", "spark");
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", `best value from ${format.number(y[0])} to ${format.number(y[y.length - 1])}, ${isBetterLow ? "lower" : "higher"} is better`);
    const [low, high] = [Math.min(...y), Math.max(...y)];
    const at = (value) => 2 + (width - 4) * (value - x[0]) / Math.max(x[x.length - 1] - x[0], 1e-300);
    const up = (value) => height - 3 - (height - 6) * (high > low ? (value - low) / (high - low) : 0.5);
    const path = document.createElementNS(ns, "path");
    path.setAttribute("d", x.map((value, i) => (i ? `H${at(value).toFixed(1)}V${up(y[i]).toFixed(1)}` : `M${at(value).toFixed(1)} ${up(y[i]).toFixed(1)}`)).join(""));
    svg.append(path);
    return svg;
  }

  function mark(name) {
    const names = chosen();
    const next = names.includes(name) ? names.filter((each) => each !== name) : [...names, name];
    const query = new URLSearchParams(next.map((each) => ["compare", each]));
    history.replaceState(null, "", next.length ? `?${query}` : location.pathname);
    render();
  }

  function row(study) {
    const link = element("a", { href: source.link(study.name) }, study.shown);
    if (study.error) return [null, link, element("span", { class: "empty" }, study.error), "", "", "", "", ""];
    const box = source.compared ? null : element("input", { type: "checkbox", "aria-label": `compare ${study.shown}`, onchange: () => mark(study.name) });
    if (box) box.checked = chosen().includes(study.name);
    const accounts = study.accounts.slice(0, 2).map(head.account);
    const last = study.active_at === null ? "" : `${ago(Date.now() / 1000 - study.active_at)} ago`;
    return [box, link, element("span", { class: `pill ${study.phase}`, title: study.status }, study.phase), sparkline(study.curve, study.direction === "minimize"),
      study.best === null ? "" : element("strong", {}, format.number(study.best)), format.count(study.trials), accounts, last];
  }

  async function render() {
    const known = studies.map((study) => study.name);
    const names = chosen().filter((name) => known.includes(name));
    show(place, JSON.stringify([studies, names, Math.floor(Date.now() / 60000)]), studies.length
      ? rowsTable([source.compared ? "" : "compare", "study", "state", "best value over cost", "best", "trials", "spent of the budget", "last activity"], studies.map(row), { class: "studies" })
      : element("p", { class: "empty" }, "There are no studies in this database yet."));
    const key = JSON.stringify([names, studies.filter((study) => names.includes(study.name)).map((study) => study.curve)]);
    if (compared.key === key) return;
    compared.key = key;
    compared.hidden = names.length < 2;
    figure.gallery(compared, compared.hidden ? [] : [await source.comparison(names)], { height: 360 });
  }

  addEventListener("popstate", render);
  return { take(answer) { studies = answer; render(); } };
}
