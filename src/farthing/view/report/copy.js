document.addEventListener("click", (event) => {
  const button = event.target.closest("button.copy");
  if (!button) return;
  const text = button.parentElement.querySelector("pre").textContent;
  const done = () => { button.textContent = "copied"; };
  if (navigator.clipboard) { navigator.clipboard.writeText(text).then(done, () => {}); return; }
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
  done();
});
