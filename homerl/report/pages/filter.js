// A browser of entries: those that fit every choice of the form, and whose text has every word that was typed.
const form = document.querySelector("#filters"), entries = [...document.querySelectorAll(".entry")];
const texts = new Map(entries.map(entry => [entry, entry.textContent.toLowerCase()]));

function choose() {
  const wanted = [...new FormData(form)].filter(([, value]) => value);
  const fits = (entry, key, value) => key === "words"
    ? value.toLowerCase().split(/\s+/).every(word => texts.get(entry).includes(word))
    : (entry.getAttribute(`data-${key}`) ?? "").split("|").includes(value);
  for (const entry of entries) entry.hidden = !wanted.every(([key, value]) => fits(entry, key, value));
  const shown = entries.filter(entry => !entry.hidden).length;
  document.querySelector("#shown").value = `${shown} of ${entries.length} shown`;
}

function open() {  // the dialogue to which a link leads
  const dialogue = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!dialogue?.classList.contains("entry")) return;
  dialogue.querySelector("details").open = true;
  dialogue.scrollIntoView();
}

form.addEventListener("input", choose);
form.addEventListener("submit", event => event.preventDefault());
addEventListener("hashchange", open);
choose(); // a browser that goes back keeps the choices
open();
