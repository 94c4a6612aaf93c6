// Finds rows by whole words, keeps rows of one kind, and leads to what a chosen step was the first to show.
const box = document.querySelector("#find"), found = document.querySelector("#found"), none = document.querySelector("#none");
const all = selector => [...document.querySelectorAll(selector)];
const rows = all(".row"), chips = all(".chip"), dots = all("a.dot");
const textOf = new Map(rows.map(row => [row, `${row.textContent} ${row.dataset.find ?? ""}`.toLowerCase()]));
const pressed = buttons => buttons.find(button => button.getAttribute("aria-pressed") === "true");
const listed = (row, name) => row.dataset[name].split(" ");

// "on" is no part of "person"; Chinese has no spaces between words
function finder(word) {
  if (/\p{Script=Han}/u.test(word)) return text => text.includes(word);
  const plain = word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const whole = new RegExp(`(?<![\\p{L}\\p{N}_])${plain}(?![\\p{L}\\p{N}_])`, "u");
  return text => whole.test(text);
}

function show() {
  const tests = box.value.toLowerCase().split(/\s+/).filter(Boolean).map(finder), tag = pressed(chips)?.dataset.tag;
  for (const row of rows) {
    row.hidden = !tests.every(test => test(textOf.get(row))) || (tag !== undefined && !listed(row, "tags").includes(tag));
  }
  for (const dot of dots) dot.classList.toggle("out", document.querySelector(dot.hash).hidden);
  const left = rows.filter(row => !row.hidden).length;
  document.body.classList.toggle("filtering", left < rows.length);
  none.hidden = left > 0;
  found.value = left < rows.length ? `${left} of ${rows.length}` : "";
}

function lead(step) {
  const lit = rows.filter(row => listed(row, "steps").includes(step));
  found.value = step === "0" ? "" : `step ${step}: ${lit.length} row${lit.length === 1 ? "" : "s"}`;
  lit[0]?.scrollIntoView({ block: "center", behavior: "smooth" });
}

function press(buttons, button) {
  const on = button.getAttribute("aria-pressed") !== "true";
  for (const other of buttons) other.setAttribute("aria-pressed", String(on && other === button));
}

box.addEventListener("input", show);
box.form.addEventListener("submit", event => event.preventDefault());
for (const chip of chips) chip.addEventListener("click", () => { press(chips, chip); show(); });
addEventListener("moment", event => {
  box.value = "";
  press(chips, { getAttribute: () => "true" }); // none: a filter would hide what the step showed
  show();
  lead(String(event.detail));
});
show(); // a browser that goes back keeps the words
