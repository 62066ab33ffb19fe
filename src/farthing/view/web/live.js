// Loads what has changed. No EventSource: each page would keep a connection, and a browser opens
// only six to a host.
"use strict";

(() => {
  const CHECK = 300; // ms between two checks whether the study has changed
  const UNSEEN = 3000; // the same, for a tab in the background
  const POLL = 2000; // ms between two updates of what has no stamp: the list, and printed output
  const NO_ANSWER = "The dashboard does not answer. Check that farthing dashboard is still running.";
  const { page } = document.body.dataset;
  const name = new URLSearchParams(document.body.dataset.query || "").get("name");

  async function get(path, query = {}) {
    let answer;
    try {
      answer = await fetch(`${path}?${new URLSearchParams(query)}`);
    } catch (error) {
      showError(NO_ANSWER);
      throw new Error(NO_ANSWER);
    }
    if (!answer.ok) throw new Error(await answer.text());
    return answer.json();
  }

  function showError(text) {
    const banner = document.getElementById("error-banner");
    if (banner.textContent !== text) banner.textContent = text;
    banner.hidden = !text;
  }

  const again = (task, pause) => {
    let timer = 0;
    const next = () => task().catch(() => {}).finally(() => { timer = setTimeout(next, document.hidden ? UNSEEN : pause); });
    next();
    document.addEventListener("visibilitychange", () => { if (!document.hidden && timer) { clearTimeout(timer); timer = 0; next(); } });
  };

  function study() {
    let seen = { version: -1, drawn: -1 };
    let version = 0; // of the trials that this page has
    let epoch = ""; // of the server
    const source = {
      stamp: () => `${seen.version} ${seen.drawn}`,
      figures: (tab) => get("data/figures", { name, tab }),
      trial: (number) => get("data/trial", { name, number }),
      why: (number) => get("data/why", { name, number }),
      log: (number) => get("data/log", { name, number }),
      outputs: () => get("data/outputs", { name }),
      settings: () => get("data/settings", { name }),
    };
    const shown = studyPage(source);
    again(async () => {
      const now = await get("stamp", { name });
      showError(now.error);
      const isFirst = seen.version < 0;
      if (now.version === seen.version && now.drawn === seen.drawn && !isFirst) return;
      try {
        const answer = await get("data/study", { name, since: version, epoch });
        ({ version, epoch } = answer);
        seen = { version: answer.version, drawn: now.drawn };
        shown.take(answer);
      } catch (error) {
        shown.fail(error.message);
      }
    }, CHECK);
    setInterval(() => shown.refresh(), POLL);
  }

  function studies() {
    const shown = studiesPage({
      comparison: (names) => get("data/comparison", names.map((each) => ["name", each])),
      link: (each) => `study?${new URLSearchParams({ name: each })}`,
    });
    again(async () => { shown.take(await get("data/studies")); showError(""); }, POLL);
  }

  if (page === "study") study();
  if (page === "studies") studies();
})();
