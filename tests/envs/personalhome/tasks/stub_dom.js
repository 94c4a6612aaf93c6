// Just enough of a browser to mark a page of two items: `node stub_dom.js <check_page.js> <calls as JSON>`.
const fs = require("fs");
const [, , script, told] = process.argv;
const { page, items, calls, kept } = JSON.parse(told);
const out = { saved: null, kept: null, progress: null, done: [] };
const heard = {};
const forms = items.map(item => ({
  dataset: { item }, values: {}, listeners: {},
  classList: { toggle: (name, on) => { out.done = out.done.filter(one => one !== item).concat(on ? [item] : []); } },
  addEventListener(kind, act) { this.listeners[kind] = act; },
  get elements() {
    return new Proxy({}, { get: (_, name) => ({ set value(said) { forms.find(form => form.dataset.item === item).values[name] = said; } }) });
  },
}));
globalThis.FormData = class { constructor(form) { this.form = form; } *[Symbol.iterator]() { yield* Object.entries(this.form.values); } };
const storage = kept === null
  ? { getItem() { throw new Error("forbidden"); }, setItem() { throw new Error("forbidden"); } }
  : { getItem: () => JSON.stringify(kept), setItem: (_, text) => { out.kept = JSON.parse(text); } };
Object.defineProperty(globalThis, "localStorage", { value: storage, configurable: true });
globalThis.Blob = class { constructor(parts) { this.text = parts.join(""); } };
globalThis.URL = { createObjectURL: file => { out.saved = file.text; return "blob:"; }, revokeObjectURL() {} };
globalThis.addEventListener = kind => { out.warns = kind; };
globalThis.document = {
  body: { dataset: page },
  querySelectorAll: () => forms,
  querySelector: name => name === "#save"
    ? { addEventListener: (kind, act) => { heard[kind] = act; } }
    : { set value(text) { out.progress = text; } },
  createElement: () => ({ click() {} }),
};
(0, eval)(fs.readFileSync(script, "utf8"));
for (const [at, values] of calls) {
  Object.assign(forms[at].values, values);
  forms[at].listeners.input();
}
heard.click();
console.log(JSON.stringify(out));
