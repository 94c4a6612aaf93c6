// The browser of dialogues: those that fit every choice.
const form = document.querySelector("#filters"), entries = [...document.querySelectorAll(".entry")];

function choose() {
  const wanted = [...new FormData(form)].filter(([, value]) => value);
  for (const entry of entries) entry.hidden = !wanted.every(([key, value]) => entry.getAttribute(`data-${key}`) === value);
  const shown = entries.filter(entry => !entry.hidden).length;
  document.querySelector("#shown").value = `${shown} of ${entries.length} shown`;
}

form.addEventListener("change", choose);
choose(); // a browser that goes back keeps the choices
