// The filter: each word typed must begin a word of what a device is found by, and its category be the one pressed, if any.
// Chinese puts no spaces between words, so there a word may begin anywhere.
const box = document.querySelector("#filter"), found = document.querySelector("#found");
const chips = [...document.querySelectorAll(".chip")], devices = [...document.querySelectorAll(".device")];

const beginning = word =>
  new RegExp("(?:(?<![\\p{L}\\p{N}])|(?=\\p{Script=Han}))" + word.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"), "u");

function filter() {
  const words = box.value.toLowerCase().split(/[\s_]+/).filter(Boolean).map(beginning);
  const pressed = chips.find(chip => chip.getAttribute("aria-pressed") === "true")?.dataset.category;
  for (const device of devices) {
    const fits = words.every(word => word.test(device.dataset.find));
    device.hidden = !fits || (pressed !== undefined && device.dataset.category !== pressed);
  }
  const shown = devices.filter(device => !device.hidden).length;
  document.body.classList.toggle("filtering", words.length > 0 || pressed !== undefined);
  found.value = shown === devices.length ? "" : shown ? `${shown} of ${devices.length}` : "no device matches";
}

box.addEventListener("input", filter);
box.form.addEventListener("submit", event => event.preventDefault());
for (const chip of chips) {
  chip.addEventListener("click", () => {
    const press = chip.getAttribute("aria-pressed") !== "true";
    chips.forEach(other => other.setAttribute("aria-pressed", String(press && other === chip)));
    filter();
  });
}
filter(); // a browser that goes back keeps the words
