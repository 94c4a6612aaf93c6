// Fills home and talk from what the server tells. All words become text nodes; the home alone is HTML, escaped by its world.
const at = id => document.getElementById(id);
const home = at("home"), turns = at("turns"), box = at("sentence"), trouble = at("trouble");
let busy = false;

function make(tag, name, text) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text !== undefined) made.textContent = text;
  return made;
}

const things = owner => [...home.querySelectorAll("[data-did]")].filter(thing => thing.dataset.did === owner);

function draw(html, changed = []) {
  const marked = new Set([...home.querySelectorAll(".changed")].map(thing => thing.dataset.did));
  if (html !== undefined) home.innerHTML = html;
  for (const owner of new Set([...marked, ...changed])) things(owner).forEach(thing => thing.classList.add("changed"));
  if (changed.length) show(changed[0]);
}

const unmark = () => home.querySelectorAll(".changed").forEach(thing => thing.classList.remove("changed"));
const focusBox = () => { if (matchMedia("(hover: hover)").matches) box.focus(); }; // else a keyboard would cover the home
const show = owner => things(owner)[0]?.scrollIntoView({ block: "nearest" });

function deed(event) {
  if (event.note !== undefined) return [make("p", "note", event.note)];
  const parts = [];
  if (event.calls.length || event.results.length) {
    const part = make("div", event.refused ? "deed refused" : "deed");
    event.results.forEach((result, i) => {
      if (i < event.calls.length) part.append(make("pre", "call", event.calls[i]));
      part.append(make("pre", "result", "→ " + result));
    });
    if (event.changes.length) part.append(changes(event.changes));
    parts.push(part);
  }
  if (event.words) parts.push(make("p", "theirs", event.words));
  return parts;
}

function changes(all) {
  const list = make("ul"), told = new Map();
  for (const one of all) {
    const key = one.owner + "\n" + one.thing;
    if (!told.has(key)) told.set(key, { ...one, words: [] });
    told.get(key).words.push(one.words);
  }
  for (const one of told.values()) {
    const item = make("li"), words = make("span"), name = make("button", "", one.thing);
    name.type = "button";
    name.title = "show it in the home";
    name.addEventListener("click", () => show(one.owner));
    words.append(name, ": " + one.words.join(", "));
    item.append(words);
    list.append(item);
  }
  return list;
}

function turn(sentence) {
  const item = make("li");
  item.append(make("p", "mine", sentence));
  turns.append(item);
  return item;
}

function all(talk, changed) {
  turns.replaceChildren();
  for (const one of talk.turns) {
    const item = turn(one.sentence);
    one.events.forEach(event => item.append(...deed(event)));
  }
  if (changed) unmark();
  draw(talk.home, changed);
  settle(talk.busy);
  if (talk.busy) setTimeout(() => act("talk"), 1000); // another window asked
}

function settle(running) {
  busy = running;
  at("stop").hidden = !busy;
  at("send").hidden = busy;
  at("undo").disabled = at("reset").disabled = busy || !turns.children.length;
  at("save").setAttribute("aria-disabled", String(busy || !turns.children.length));
  at("hint").hidden = turns.children.length > 0;
  turns.scrollTop = turns.scrollHeight;
}

function complain(error) {
  trouble.textContent = error ? String(error.message ?? error) : "";
  trouble.hidden = !error;
}

async function ask(path, body) {
  const post = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body ?? {}) };
  const answer = await fetch(path, path === "talk" ? {} : post).catch(() => { throw new Error("homerl does not run any more"); });
  if (!answer.ok) throw new Error((await answer.json()).error.message);
  return answer;
}

async function* lines(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    yield* parts.map(part => JSON.parse(part));
  }
}

async function say(sentence) {
  complain();
  unmark();
  const item = turn(sentence);
  item.classList.add("thinking");
  settle(true);
  const before = turns.children.length - 1;
  let note;
  try {
    for await (const line of lines(await ask("say", { sentence }))) {
      if (line.turns) {
        all(line);
        if (line.turns.length <= before) { // nothing was answered, so the sentence is no turn
          complain(note);
          box.value ||= sentence;
        }
        continue;
      }
      note = line.event.note ?? note;
      item.append(...deed(line.event));
      draw(line.home, (line.event.changes ?? []).map(one => one.owner).filter(Boolean));
      turns.scrollTop = turns.scrollHeight;
    }
  } catch (error) {
    complain(error);
    item.remove();
    settle(false);
  }
  focusBox();
}

async function act(path) {
  complain();
  try {
    const talk = await (await ask(path)).json();
    all(talk, path === "undo" || path === "reset" ? talk.changed ?? [] : undefined);
    if (talk.undone && !box.value) box.value = talk.undone;
  } catch (error) { complain(error); }
  focusBox();
}

at("say").addEventListener("submit", event => {
  event.preventDefault();
  const sentence = box.value.trim();
  if (!sentence || busy) return;
  box.value = "";
  say(sentence);
});
document.querySelectorAll(".suggested").forEach(one => one.addEventListener("click", () => { if (!busy) say(one.textContent); }));
for (const path of ["undo", "reset"]) at(path).addEventListener("click", () => act(path));
at("stop").addEventListener("click", () => ask("stop").catch(complain));
addEventListener("keydown", event => { if (event.key === "Escape" && busy) at("stop").click(); });
act("talk");
