// The tabs below the main chart besides Trials: what each shows, from figures and facts.
"use strict";

const tabs = (() => {
  const NAMES = { trials: "Trials", parameters: "Parameters", costs: "Costs", running: "Running", stopping: "Stopping", settings: "Settings" };

  function runningList(facts, source) {
    const rows = facts.running.map((each) => {
      const bars = Object.entries(each.expected).map(([resource, expected]) => {
        const paid = each.cost[resource] ?? 0;
        const text = `${format.amount(resource, paid)} of about ${format.amount(resource, expected)}`;
        return element("div", { class: "account" }, head.bar([[paid > expected ? "killed" : "accent", paid / Math.max(expected, paid, 1e-300), text]], text), element("span", { class: "note" }, text));
      });
      const paid = Object.keys(each.cost).length ? format.amounts(each.cost) : "starting";
      const params = each.params.map(([name, value]) => `${name}=${typeof value === "number" ? format.general(value, 4) : value}`).join(", ");
      return [element("a", { href: source.link({ trial: each.number }) }, `trial ${each.number}`), bars.length ? bars : paid,
        each.step ? `${format.number(each.last)} at step ${each.step}` : "", each.worker, params];
    });
    return rowsTable(["trial", "cost so far against expected", "last report", "worker", "parameters"], rows, { class: "running-trials" });
  }

  function stopping(facts, forecast) {
    const left = facts.accounts.filter((each) => each.limit !== null).map((each) => format.amount(each.resource, Math.max(each.limit - each.spent, 0)));
    const items = [];
    items.push(["Stopping rule", facts.rule || "none: the study ends with its budget"]);
    items.push(["Stopping now would save", left.join(", ") || "nothing: the budget has no limit"]);
    items.push(["One more trial", forecast ? forecast.sentence : "The models are being fitted …"]);
    items.push(["State", forecast && facts.phase !== "running" ? forecast.verdict : facts.status]);
    if (facts.saved) items.push(["Saved by pausing", facts.saved]);
    return trial.facts(items);
  }

  return { NAMES, runningList, stopping };
})();
