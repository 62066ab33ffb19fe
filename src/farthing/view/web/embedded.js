// The studies inside a report: their data is in the page, and nothing is loaded. If there are
// several, the address names the one that is shown; without a name, the page lists all.
"use strict";

(() => {
  const data = document.getElementById("report-data");
  if (!data) return;
  const { studies, list, comparison } = JSON.parse(data.textContent);
  const address = (name) => `?${new URLSearchParams({ study: name })}`;

  function showAll() {
    document.getElementById("all").hidden = false;
    studiesPage({ compared: studies.map((each) => each.name), comparison: async () => comparison, link: address }).take(list);
  }

  function showOne({ study, shown, lead, figures, settings, best }) {
    const trials = new Trials();
    trials.merge(study.trials);
    const pairs = (kind, row) => trials.of(kind).filter((column) => column.values[row] !== null).map((column) => [column.key, trial.shown(column, row)]);
    const source = {
      stamp: () => "report",
      figures: async (tab) => ({ figures: figures[tab] || [], note: "" }),
      settings: async () => settings,
      trial: async (row) => (row === best?.number ? best : {
        facts: [["state", trials.at("state", row)], ["value", trials.at("value", row)], ...pairs("cost", row), ...pairs("expected", row)].filter(([, text]) => text !== null),
        params: pairs("param", row), metrics: pairs("metric", row), copies: {},
      }),
      why: async (row) => ({ words: [["because", trials.at("why", row) || ""], ["more", `farthing explain ${row}`]], figure: null }),
      log: async () => ({ latest: "A report does not contain progress reports and output.", output: "", error: "", reports: "", figure: null }),
      outputs: async () => [],
    };
    const screen = document.getElementById("one");
    screen.querySelector("h1").textContent = shown;
    screen.querySelector(".lead").textContent = lead;
    screen.hidden = false;
    studyPage(source).take(study);
  }

  const wanted = new URLSearchParams(location.search).get("study");
  const chosen = studies.length === 1 ? studies[0] : studies.find((each) => each.name === wanted);
  if (chosen) showOne(chosen);
  else showAll();
})();
