// Plays the moments of an episode one after the other: the choices `at`, of which the page shows what belongs to the chosen.
// Without this script they are chosen by hand.
(() => {
const moments = [...document.querySelectorAll('input[name="at"]')], bar = document.querySelector("#replay");
const [first, back, play, forward] = bar.querySelectorAll("button");
const now = () => moments.findIndex(moment => moment.checked);
let timer = null;

function go(to, follow = true) {
  const at = Math.max(0, Math.min(moments.length - 1, to));
  moments[at].checked = true;
  first.disabled = back.disabled = at === 0;
  forward.disabled = at === moments.length - 1;
  const shown = document.querySelector(at ? `#step-${at}` : "h1");
  if (!follow) return;
  shown?.scrollIntoView({ block: "nearest", behavior: "smooth" });
  dispatchEvent(new CustomEvent("moment", { detail: at }));
}

function stop() {
  clearInterval(timer);
  timer = null;
  play.textContent = "▶ Play";
}

function start() {
  if (now() === moments.length - 1) go(0);
  play.textContent = "Pause";
  timer = setInterval(() => { go(now() + 1); if (now() === moments.length - 1) stop(); }, 1800);
}

first.addEventListener("click", () => { stop(); go(0); });
back.addEventListener("click", () => { stop(); go(now() - 1); });
forward.addEventListener("click", () => { stop(); go(now() + 1); });
play.addEventListener("click", () => timer ? stop() : start());
moments.forEach(moment => moment.addEventListener("change", () => { stop(); go(now()); }));
addEventListener("keydown", event => {
  if (event.target.matches?.("input, textarea") || event.altKey || event.ctrlKey || event.metaKey) return;
  const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (move) { event.preventDefault(); stop(); go(now() + move); }
});
bar.hidden = moments.length < 2;
go(now(), false);
})();
