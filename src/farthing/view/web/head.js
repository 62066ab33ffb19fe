// The first screen of a study: status, time left and four key figures.
"use strict";

const head = (() => {
  const STATES = ["done", "paused", "running", "failed", "killed", "lost"];

  const card = (title, ...content) => element("section", { class: "card", "aria-label": title }, element("h2", {}, title), ...content);
  const width = (share) => `${Math.min(Math.max(100 * share, 0), 100)}%`;

  // A bar of parts: [[style, share of the whole, title]].
  function bar(parts, label) {
    return element("div", { class: "bar", role: "img", "aria-label": label }, parts.filter(([, share]) => share > 0).map(([style, share, title]) => (
      element("i", { class: `part ${style}`, title, style: { width: width(share), "background-color": `var(--${style})`, "background-image": `var(--${style}-hatch)` } }))));
  }

  const sentence = (words) => `${words.slice(0, 1).toUpperCase()}${words.slice(1)}.`;

  function best(facts, trials, choose) {
    if (facts.best === null) {
      return card("Best value", element("p", { class: "figure-number none" }, "–"), element("p", { class: "note" }, sentence(`${facts.why_no_best} yet`)));
    }
    const costs = trials.of("cost").filter((column) => column.values[facts.best] !== null).map((column) => trial.shown(column, facts.best));
    const name = `trial ${facts.best}`;
    return card("Best value",
      element("p", { class: "figure-number" }, format.number(trials.at("value", facts.best))),
      element("p", { class: "note" }, choose ? element("a", { href: choose.link(facts.best), onclick: (event) => { event.preventDefault(); choose.to(facts.best); } }, name) : name,
        costs.length ? ` for ${costs.join(", ")}` : ""),
      element("p", { class: "note" }, `${facts.metric}: ${facts.direction === "minimize" ? "lower" : "higher"} is better`));
  }

  function account({ resource, limit, spent, overhead, reserved }) {
    const text = (amount) => format.amount(resource, amount);
    const of = limit === null ? "" : ` of ${text(limit)}`;
    const more = [reserved ? `${text(reserved)} reserved` : "", overhead ? `${text(overhead)} overhead` : ""].filter(Boolean).join(", ");
    const label = `${text(spent)}${of} spent${more ? `, ${more}` : ""}`;
    return element("div", { class: "account" },
      element("p", {}, element("strong", {}, text(spent)), of, element("span", { class: "note" }, more ? ` ${more}` : "")),
      limit === null ? null : bar([["overhead", overhead / limit, `overhead: ${text(overhead)}`], ["accent", (spent - overhead) / limit, `spent: ${text(spent)}`],
        ["reserved", reserved / limit, `reserved: ${text(reserved)}`]], label));
  }

  function budget(facts) {
    const shown = facts.accounts.slice(0, 3);
    const body = shown.length ? shown.map(account) : [element("p", { class: "note" }, "Nothing has been spent, and the budget has no limit.")];
    return card("Spent of the budget", ...body);
  }

  function states(facts, trials) {
    const total = Math.max(trials.count, 1);
    const found = STATES.filter((state) => facts.states[state]);
    return card("Trials", element("p", { class: "figure-number" }, format.count(trials.count)),
      bar(found.map((state) => [state, facts.states[state] / total, `${state}: ${facts.states[state]}`]), found.map((state) => `${facts.states[state]} ${state}`).join(", ")),
      element("p", { class: "note counts" }, found.map((state) => element("span", {}, element("i", { class: "sample area", style: { "background-color": `var(--${state})`, "background-image": `var(--${state}-hatch)` } }), `${format.count(facts.states[state])} ${state}`))));
  }

  function next(forecast, facts) {
    if (!forecast) return card("One more trial", element("p", { class: "figure-number none" }, "…"), element("p", { class: "note" }, "The models are being fitted."));
    if (forecast.gain === undefined) return card("One more trial", element("p", { class: "figure-number none" }, "–"), element("p", { class: "note" }, sentence(forecast.sentence)));
    const verdict = forecast.worth_it === null ? null : element("span", { class: `pill ${forecast.worth_it ? "good" : "bad"}` }, forecast.worth_it ? "worth it" : "not worth it");
    const sign = facts.direction === "minimize" ? "−" : "+";
    return card("One more trial",
      element("p", { class: "figure-number" }, `${sign}${format.general(forecast.gain, 3)}`, verdict),
      element("p", { class: "note", title: forecast.sentence }, `expected improvement for about ${format.amounts(forecast.cost) || "an unknown cost"}`,
        forecast.afforded ? "" : "; the budget does not cover it"));
  }

  function status(facts) {
    const left = facts.phase === "running" && facts.left_s !== null ? `about ${format.duration(facts.left_s)} left at this rate` : "";
    return [element("span", { class: `pill ${facts.phase}` }, facts.phase), element("span", { class: "sentence", title: facts.status }, facts.status),
      element("span", { class: "note" }, left)];
  }

  // choose: {to(row), link(row)}, which open a trial; null: nothing does. A forecast that is
  // undefined is left out.
  function make(places, choose) {
    return {
      show(facts, forecast, trials) {
        show(places.status, JSON.stringify([facts.status, facts.phase, facts.left_s && Math.round(facts.left_s)]), status(facts));
        const content = JSON.stringify([facts.best, facts.accounts, facts.states, forecast, facts.saved]);
        show(places.figures, content, best(facts, trials, choose), budget(facts), states(facts, trials), forecast === undefined ? null : next(forecast, facts));
      },
    };
  }

  return { account, bar, make };
})();
